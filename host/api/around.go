package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
)

// Values of the CORS headers. The official web clients send all request headers in
// this list.
var (
	anyOrigin     = []string{"*"}
	allowHeaders  = []string{"content-type, x-stamp, x-stamp-webauthn, x-stamp-attested, x-session, x-client-version, x-auth-proxy-config-id, x-captcha-token, x-request-id, x-cloister-sign-reply, x-cloister-log-proof"}
	allowMethods  = []string{"GET, POST, OPTIONS"}
	exposeHeaders = []string{"X-Request-Id, ratelimit-limit, ratelimit-remaining, retry-after, x-cloister-reply-signature, x-cloister-reply-time, x-cloister-live-key, x-cloister-deployment"}
	maxAge        = []string{"86400"}
	varyOrigin    = []string{"Origin"}
	varyDocument  = []string{"Origin, X-Cloister-Sign-Reply"}
)

// wrap is the middleware of every request: request id, CORS headers, debug log, and
// recovery from panics.
func (a *API) wrap(next http.Handler) http.Handler { return a.wrapWith(next, a.cross) }

// wrapWith is wrap with cross to set the CORS headers.
func (a *API) wrapWith(next http.Handler, cross func(http.Header, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := a.requestID(r)
		h := w.Header()
		h["X-Request-Id"] = []string{id}
		cross(h, r)
		defer a.recoverPanic(w, r, id)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if !a.options.Log.Enabled(r.Context(), slog.LevelDebug) {
			next.ServeHTTP(w, r)
			return
		}
		begin, seen := a.options.Now(), &watched{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		a.options.Log.Debug("request", "id", id, "method", r.Method, "path", clip(r.URL.Path), "status", seen.status,
			"from", a.address(r), "took", a.options.Now().Sub(begin))
	})
}

// clip cuts s to 200 bytes: it bounds attacker-controlled text in a log line.
func clip(s string) string { return s[:min(len(s), 200)] }

// recoverPanic turns a panic into a 500 reply and logs the stack, which holds addresses and no
// contents.
func (a *API) recoverPanic(w http.ResponseWriter, r *http.Request, id string) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	a.options.Log.Error("panic", "id", id, "path", clip(r.URL.Path), "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	refuse(w, http.StatusInternalServerError, codeInternal, "internal server error ("+id+")")
}

// requestID returns the caller's X-Request-Id if it is well formed, else a new id.
func (a *API) requestID(r *http.Request) string {
	if got := r.Header["X-Request-Id"]; len(got) == 1 && isID(got[0]) {
		return got[0]
	}
	return a.options.Boot + "-" + strconv.FormatUint(a.count.Add(1), 10)
}

func isID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// cross sets the CORS headers of the public interface. Stamps are in headers of their
// own and no cookie counts, so any origin may be allowed.
func (a *API) cross(h http.Header, r *http.Request) {
	origin := r.Header["Origin"]
	if a.origins != nil {
		h["Vary"] = varyOrigin
		if len(origin) != 1 || !a.origins[origin[0]] {
			return
		}
		h["Access-Control-Allow-Origin"] = origin
		crossing(h, r)
		return
	}
	crossAny(h, r)
}

// crossAny sets CORS headers that allow every origin.
func crossAny(h http.Header, r *http.Request) {
	if len(r.Header["Origin"]) == 0 && r.Method != http.MethodOptions {
		return
	}
	h["Access-Control-Allow-Origin"] = anyOrigin
	crossing(h, r)
}

// crossing sets the other CORS headers of an allowed origin.
func crossing(h http.Header, r *http.Request) {
	h["Access-Control-Expose-Headers"] = exposeHeaders
	if r.Method == http.MethodOptions {
		h["Access-Control-Allow-Headers"] = allowHeaders
		h["Access-Control-Allow-Methods"] = allowMethods
		h["Access-Control-Max-Age"] = maxAge
	}
}

// watched is a ResponseWriter that records the status for the debug log.
type watched struct {
	http.ResponseWriter
	status int
}

func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the server's ResponseWriter, so that http.ResponseController can flush it.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
