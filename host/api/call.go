package api

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloister/host/link"
	"cloister/shared/pace"
	"cloister/shared/wire"

	"github.com/gorilla/mux"
)

// credentials are the headers that a call to the enclave carries: the name that
// net/http keeps them under, and the name on the wire.
var credentials = [...]struct{ kept, name string }{
	{"X-Stamp", "X-Stamp"},
	{"X-Stamp-Webauthn", "X-Stamp-WebAuthn"},
	{"X-Stamp-Attested", "X-Stamp-Attested"},
	{"X-Session", "X-Session"},
	signReply,
	logProof,
}

// signReply is the header that asks for a signed reply; every endpoint accepts it.
var signReply = struct{ kept, name string }{wire.HeaderSignReply, wire.HeaderSignReply}

// logProof is the header that asks for a logged proof. Every endpoint's call carries it, so that the enclave can refuse it where there is none.
var logProof = struct{ kept, name string }{wire.HeaderLogProof, wire.HeaderLogProof}

// ofProxy are the headers that an auth proxy call carries.
var ofProxy = [...]struct{ kept, name string }{
	{"X-Auth-Proxy-Config-Id", "X-Auth-Proxy-Config-Id"},
	{"X-Captcha-Token", "X-Captcha-Token"},
	signReply,
	logProof,
}

// ofDocuments is the one header that a request for a document carries.
var ofDocuments = [...]struct{ kept, name string }{signReply}

// handleCall makes the handler of one endpoint: it reads the body, calls the enclave and relays the reply.
func (a *API) handleCall(endpoint wire.Endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin := a.options.Now()
		op := mux.Vars(r)["op"]
		rate, ok := a.admit(w, r)
		if !ok {
			return
		}
		names := credentials[:]
		if endpoint == wire.EndpointProxy { // its calls have no stamp
			names = ofProxy[:]
		}
		head, size := headOf(names, r.Header)
		if size > wire.MaxHead {
			refuse(w, http.StatusRequestHeaderFieldsTooLarge, codeInvalid, "headers too large")
			return
		}
		if len(op) > wire.MaxOp {
			refuse(w, http.StatusNotFound, codeNotFound, "path not found")
			return
		}
		if a.refusedBefore(w, head) {
			return
		}
		body, err := readBody(w, r)
		if err != nil {
			refuseBody(w, err)
			return
		}
		a.ask(w, r, begin, rate, &wire.Call{Endpoint: endpoint, Op: op, Head: head, Body: body}, nil)
	}
}

// document makes the handler of a public document of the enclave: a call without stamp, whose
// reply caches may keep. The host relays the bytes; clients verify them.
func (a *API) document(op string) http.HandlerFunc {
	cache := cacheDocument
	if op == wire.OpWebhookKeys {
		cache = cacheWebhookKeys
	}
	return func(w http.ResponseWriter, r *http.Request) {
		begin := a.options.Now()
		rate, ok := a.admit(w, r)
		if !ok {
			return
		}
		call := &wire.Call{Endpoint: wire.EndpointBoot, Op: op}
		if key, of := mux.Vars(r)["key"]; of { // a boot proof never changes and proves itself: its reply is not signed
			call.Body = []byte(key)
		} else if r.Method == http.MethodGet { // not for HEAD: without the body nobody can verify the signature
			call.Head, _ = headOf(ofDocuments[:], r.Header) // net/http has bounded the size
		}
		a.ask(w, r, begin, rate, call, cache)
	}
}

// Cache-Control values: documents that clients pin may be cached as long as the enclave
// caches them, the keys that verify webhooks for a day.
var (
	cacheDocument    = []string{"public, max-age=60"}
	cacheWebhookKeys = []string{"public, max-age=86400"}
	noStore          = []string{"no-store"}
)

// ask calls the enclave and relays its reply. cache is the Cache-Control of a
// successful reply, nil for none.
func (a *API) ask(w http.ResponseWriter, r *http.Request, begin time.Time, rate pace.Count, call *wire.Call, cache []string) {
	call.WithinMs, call.From = uint32(a.options.Wait/time.Millisecond), wire.From{Address: a.address(r), Origin: origin(r)}
	ctx, cancel := context.WithTimeout(r.Context(), a.options.Wait+grace)
	defer cancel()
	reply, err := a.options.Enclave.Call(ctx, call)
	if err == nil && (reply.Status < 200 || reply.Status > 599) {
		err = link.ErrWrongReply
	}
	if err == nil && reply.Limit > 0 {
		rate = pace.Least(rate, pace.Count{Limit: reply.Limit, Remaining: reply.Remaining})
	}
	tellRate(w.Header(), rate)
	if err == nil && reply.Status == http.StatusTooManyRequests && reply.RetryMs > 0 {
		wait := time.Duration(reply.RetryMs) * time.Millisecond
		tellWait(w.Header(), wait)
		if credential := credentialOf(call.Head); reply.RefusesAll && credential != "" {
			a.refusals.Note(credential, a.options.Now(), wait)
		}
	}
	if err != nil {
		status := a.refuseCall(w, err)
		a.options.Metrics.observeCall(call.Endpoint, call.Op, status, a.options.Now().Sub(begin), nil)
		return
	}
	if call.Endpoint == wire.EndpointProxy && !reply.Readable {
		delete(w.Header(), "Access-Control-Allow-Origin")
	}
	switch {
	case len(call.Head) > 0 && cache != nil: // the reply is signed over the caller's nonce
		w.Header()["Cache-Control"] = noStore
	case cache != nil && reply.Status == http.StatusOK:
		w.Header()["Cache-Control"], w.Header()["Vary"] = cache, varyDocument
	}
	tellSigned(w.Header(), reply.Signed)
	writeWhole(w, r, int(reply.Status), reply.Body)
	a.options.Metrics.observeCall(call.Endpoint, call.Op, int(reply.Status), a.options.Now().Sub(begin), reply.Phases)
}

// tellSigned sets the headers of a signed reply. The host's own errors never have them,
// so a client that requires signed replies can tell them apart.
func tellSigned(h http.Header, s *wire.Signed) {
	if s == nil {
		return
	}
	h["X-Cloister-Reply-Signature"] = []string{hex.EncodeToString(s.Signature)}
	h["X-Cloister-Reply-Time"] = []string{strconv.FormatUint(s.TimeMs, 10)}
	h["X-Cloister-Live-Key"] = []string{hex.EncodeToString(s.LiveKey)}
	h["X-Cloister-Deployment"] = []string{hex.EncodeToString(s.Deployment[:])}
}

// headOf returns those headers of a request that names lists, and their size in bytes.
func headOf(names []struct{ kept, name string }, h http.Header) (head []wire.Header, size int) {
	for _, c := range names {
		for _, v := range h[c.kept] {
			head = append(head, wire.Header{Name: c.name, Value: v})
			size += len(c.name) + len(v)
		}
	}
	return head, size
}

func origin(r *http.Request) string {
	if got := r.Header["Origin"]; len(got) == 1 && len(got[0]) <= 256 {
		return got[0]
	}
	return ""
}

// address is the caller's IP address, for the enclave's allow lists and for logs: the
// connection's peer, or with TrustForwarded the one that the proxy in front reports.
func (a *API) address(r *http.Request) string {
	if a.options.TrustForwarded {
		if got := r.Header["X-Forwarded-For"]; len(got) > 0 {
			last := got[len(got)-1]
			if ip := net.ParseIP(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])); ip != nil {
				return ip.String()
			}
			return ""
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

var errTooLarge = errors.New("body too large")

// firstBuffer bounds the bytes allocated for a Content-Length before the body arrives.
const firstBuffer = 64 << 10

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > wire.MaxBody {
		w.Header().Set("Connection", "close") // instead of reading the rest
		return nil, errTooLarge
	}
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), firstBuffer)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(r.Body, wire.MaxBody+1)); err != nil {
		return nil, err
	}
	if b.Len() > wire.MaxBody {
		w.Header().Set("Connection", "close")
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}

func refuseBody(w http.ResponseWriter, err error) {
	var slow net.Error
	switch {
	case errors.Is(err, errTooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, codeInvalid, "request body too large")
	case errors.As(err, &slow) && slow.Timeout():
		refuse(w, http.StatusRequestTimeout, codeTooLate, "request body came too slowly")
	default:
		refuse(w, http.StatusBadRequest, codeInvalid, "request body could not be read")
	}
}

// refuseCall replies with the error of a call that failed, and returns the status.
func (a *API) refuseCall(w http.ResponseWriter, err error) int {
	switch {
	case errors.Is(err, link.ErrUnavailable):
		refuse(w, http.StatusServiceUnavailable, codeUnavailable, "enclave unavailable")
		return http.StatusServiceUnavailable
	case errors.Is(err, wire.ErrTooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, codeInvalid, "request too large")
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.Canceled): // the caller has disconnected: nobody reads this
		refuse(w, statusClosed, 1, "request canceled")
		return statusClosed
	case errors.Is(err, context.DeadlineExceeded):
		refuse(w, http.StatusGatewayTimeout, codeTooLate, "enclave did not answer in time")
		return http.StatusGatewayTimeout
	}
	a.options.Log.Error("call failed", "id", w.Header().Get("X-Request-Id"), "error", err)
	refuse(w, http.StatusInternalServerError, codeInternal, "internal server error ("+w.Header().Get("X-Request-Id")+")")
	return http.StatusInternalServerError
}

// statusClosed is the status that gateways record for a caller that has disconnected.
const statusClosed = 499
