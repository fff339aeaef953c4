package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"cloister/host/store"
	"cloister/shared/wire"
)

// maxWebhookReply bounds the bytes read of a receiver's response. Only its status matters.
const maxWebhookReply = 64 << 10

// retries are the pauses after the first, second, … failed attempt, then longestRetry. After
// quickRetries each gets a random extra of up to a quarter, so that sends that failed together are
// not retried together.
var retries = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour}

const (
	quickRetries = 3
	longestRetry = 8 * time.Hour
	maxAttempts  = len(retries) + 8 + 1 // after the last, about three days after the first, the event is a dead letter
)

// webhookClient makes an HTTP/1.1 client without proxy and redirects. Its dialer checks the address
// of each connection.
func webhookClient(d *Dialer, roots *x509.CertPool) *http.Client {
	speaks := new(http.Protocols)
	speaks.SetHTTP1(true)
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: dialWait,
			Protocols: speaks, DisableCompression: true, MaxResponseHeaderBytes: maxWebhookReply, MaxIdleConns: inDelivery, MaxIdleConnsPerHost: ofReceiver,
			IdleConnTimeout: 30 * time.Second,
		},
	}
}

// A delivery is one attempt to deliver an event to a receiver.
type delivery struct {
	webhooks *Webhooks
	send     store.Send
	late     bool   // the receiver took longer than webhookLate, or did not answer in time
	result   string // for the observer; empty if no request was made
}

// run makes the attempt and changes d.send; the caller stores it.
func (d *delivery) run(ctx context.Context) {
	opening, cancel := context.WithTimeout(ctx, webhookOpen)
	o, err := d.webhooks.options.Enclave.OpenSend(opening, d.send.ID)
	cancel()
	switch {
	case err != nil: // the enclave failed: it does not count as an attempt
		d.send.Text, d.send.DueMs = clean("the enclave did not open it: "+err.Error()), ms(d.webhooks.options.Now().Add(webhookAway))
	case !o.Found:
		d.retryLater("the enclave knows of no such event")
	case o.Expired:
		d.end(wire.SendExpired, "gone", "its time has passed")
	case o.Gone:
		d.end(wire.SendExpired, "gone", "nobody receives it any more")
	case o.Webhook == nil:
		d.retryLater("a send of a kind that this host does not know")
	default:
		d.deliver(ctx, o.Webhook)
	}
}

func (d *delivery) end(state wire.SendState, result, text string) {
	d.send.State, d.send.Text, d.send.DueMs, d.result = state, clean(text), ms(d.webhooks.options.Now()), result
}

// retryLater schedules another attempt, or makes the event a dead letter after maxAttempts.
func (d *delivery) retryLater(why string) {
	if d.send.Tries++; int(d.send.Tries) >= maxAttempts {
		d.end(wire.SendRefused, "dead", why)
		return
	}
	d.send.Text, d.result = clean(why), "later"
	d.send.DueMs = ms(d.webhooks.options.Now().Add(d.webhooks.after(int(d.send.Tries))))
}

// after is the pause after the attempt of this number, counted from 1.
func (w *Webhooks) after(tries int) time.Duration {
	pause := longestRetry
	if tries <= len(retries) {
		pause = retries[tries-1]
	}
	var b [1]byte
	if tries > quickRetries {
		if _, err := io.ReadFull(w.options.Rand, b[:]); err == nil {
			pause += pause / 4 * time.Duration(b[0]) / 256
		}
	}
	return pause
}

// deliver makes the request and sets the send's state by the response.
func (d *delivery) deliver(ctx context.Context, h *wire.Webhook) {
	ctx, cancel := context.WithTimeout(ctx, webhookWait)
	defer cancel()
	began := d.webhooks.options.Now()
	status, err := d.webhooks.post(ctx, h)
	d.late = errors.Is(err, errLate) || d.webhooks.options.Now().Sub(began) > webhookLate
	switch {
	case err != nil:
		d.retryLater(err.Error())
	case status >= 200 && status < 300:
		d.send.Tries++
		d.end(wire.SendIncluded, "delivered", "")
	case isTemporary(status):
		d.retryLater(fmt.Sprintf("HTTP status %d", status))
	default:
		d.send.Tries++
		d.end(wire.SendRefused, "dead", fmt.Sprintf("HTTP status %d", status))
	}
}

// isTemporary reports whether the receiver may accept the event later: 5xx, and the 4xx that mean
// so. Redirects and other 4xx are final.
func isTemporary(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// post makes the request and returns the status. Errors don't contain the URL, which may be secret.
func (w *Webhooks) post(ctx context.Context, h *wire.Webhook) (status int, err error) {
	if len(h.URL) > wire.MaxURL || !w.mayAsk(h.URL) {
		return 0, ErrNotPublic
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(h.Body))
	if err != nil {
		return 0, errors.New("an address that cannot be asked")
	}
	for _, x := range h.Head {
		if strings.HasPrefix(x.Name, "X-") {
			req.Header[x.Name] = []string{x.Value}
		}
	}
	req.Header["Content-Type"], req.Header["User-Agent"] = []string{"application/json"}, []string{"Cloister"}
	res, err := w.client.Do(req)
	if err != nil {
		return 0, noAnswer(ctx, err)
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxWebhookReply) // so that the connection can be reused
	_ = res.Body.Close()
	return res.StatusCode, nil
}

// noAnswer is the error of a request without a response. It does not contain the URL.
func noAnswer(ctx context.Context, err error) error {
	if errors.Is(err, ErrNotPublic) {
		return ErrNotPublic
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return errors.New("a certificate that is not trusted")
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
		return errors.New("no such host")
	}
	if err := connError(ctx, err); errors.Is(err, errLate) {
		return errLate
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("connection refused")
	}
	return errors.New("no answer: the connection was not made or broke")
}

// mayAsk reports whether a URL is allowed: https, and http to loopback if the dialer allows it. The
// dialer checks the addresses of names.
func (w *Webhooks) mayAsk(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && w.options.Dialer.Loopback && err == nil && ip.IsLoopback()
}
