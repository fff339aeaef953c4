package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"cloister/host/store"
	"cloister/shared/wire"
)

// maxWebhookReply bounds a receiver's answer in bytes. Only its status matters.
const maxWebhookReply = 64 << 10

// retries are the pauses after the first, second, … failed attempt, then longestRetry. After
// quickRetries they get up to a quarter longer, so that sends that failed together do not come
// back together.
var retries = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour}

const (
	quickRetries = 3
	longestRetry = 8 * time.Hour
	maxAttempts  = len(retries) + 8 + 1 // then it is a dead letter: some three days after the first
)

// webhookClient speaks HTTP/1.1 to whom its dialer lets through, without proxy and redirects. The
// dialer decides anew for each connection.
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

// A delivery is one attempt to tell a receiver of an event.
type delivery struct {
	webhooks *Webhooks
	send     store.Send
	late     bool   // the receiver took long, or did not answer in time
	result   string // for the observer; empty where the receiver was not asked
}

// run makes the attempt and changes d.send, which is to be kept.
func (d *delivery) run(ctx context.Context) {
	opening, cancel := context.WithTimeout(ctx, webhookOpen)
	o, err := d.webhooks.options.Enclave.OpenSend(opening, d.send.ID)
	cancel()
	switch {
	case err != nil: // that is no attempt at the receiver
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
		d.tell(ctx, o.Webhook)
	}
}

func (d *delivery) end(state wire.SendState, result, text string) {
	d.send.State, d.send.Text, d.send.DueMs, d.result = state, clean(text), ms(d.webhooks.options.Now()), result
}

// retryLater tries again later, up to maxAttempts.
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

// tell makes the request and judges the answer.
func (d *delivery) tell(ctx context.Context, h *wire.Webhook) {
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

// isTemporary tells whether the receiver may take the event another time: after its own faults, and
// after the 4xx that say so. Redirects and other 4xx are final.
func isTemporary(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// post returns the status. Errors hold no address, which may be a secret.
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
	_, _ = io.CopyN(io.Discard, res.Body, maxWebhookReply) // so that the connection can be used again
	_ = res.Body.Close()
	return res.StatusCode, nil
}

// noAnswer says why there is no answer, without the address.
func noAnswer(ctx context.Context, err error) error {
	if errors.Is(err, ErrNotPublic) {
		return ErrNotPublic
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return errors.New("a certificate that is not trusted")
	}
	if err := connError(ctx, err); errors.Is(err, errLate) {
		return errLate
	}
	return errors.New("no answer: the connection was not made or broke")
}

// mayAsk takes https, and http to loopback where that is allowed. The dialer checks the addresses
// of names.
func (w *Webhooks) mayAsk(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && w.options.Dialer.Loopback && err == nil && ip.IsLoopback()
}
