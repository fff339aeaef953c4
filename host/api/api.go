// Package api is the host's HTTP side: the public interface, the auth proxy,
// and what an operator watches.
//
// What it promises:
//
//   - A body reaches the enclave as the bytes that came, unread, and the
//     enclave's answer goes out as it is, as application/json.
//   - What the host answers by itself has the same error shape: unknown path,
//     wrong method, too large, too slow, enclave away, and its own faults.
//   - Every request is bounded before work: header, body, time to send it,
//     time to be answered, and how many come from one address if that is set.
//   - No log line and no metric holds a body, a credential header or a query
//     string; a name of an operation becomes a label only after the enclave
//     answered it with success.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cloister/host/link"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

// Limits of one HTTP request. The body is bounded by wire.MaxBody.
const (
	maxHeader     = wire.MaxHead // bytes of all headers; net/http grants 4 KiB more
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxID         = 64 // bytes of X-Request-Id that are taken over
	// grace is how much longer than the enclave the host waits, so that the
	// enclave's own "too late" arrives.
	grace = time.Second
)

// An Enclave answers calls. *link.Link is one.
type Enclave interface {
	Call(ctx context.Context, call *wire.Call) (*wire.Reply, error)
	Ready() error
	Stats() link.Stats
}

// A Watched is one enclave by the name that metrics have for it: its address.
type Watched struct {
	Name    string
	Enclave Enclave
}

// Options of an API. Enclaves, Origins, TrustForwarded, AddressRate, AttestationAge,
// Outbox, Certificates and Dashboard may be zero.
type Options struct {
	Enclave Enclave
	// Enclaves are the same one by one, for whoever watches. None: Enclave is the only
	// one, and has no name.
	Enclaves []Watched
	// Ping asks whether the store answers.
	Ping    func(context.Context) error
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time
	// Boot names this process in request ids: a few random letters.
	Boot string
	// Origins that browsers may call from; none means any.
	Origins []string
	// Wait is how long a call may take. At most wire.MaxWait.
	Wait time.Duration
	// TrustForwarded takes the caller's address from the last entry of
	// X-Forwarded-For, which a proxy in front must set.
	TrustForwarded bool
	// AddressRate is what one address may ask. The zero Rate sets no limit.
	AddressRate pace.Rate
	// AttestationAge is the age from which an attestation document makes the
	// host not ready. 0: any age will do.
	AttestationAge time.Duration
	// Outbox tells how much waits in the outbox. Nil: nothing is told.
	Outbox func(context.Context) (Outbox, error)
	// Certificates tells until when the certificate of each name is good. Nil: there
	// are none.
	Certificates func() map[string]time.Time
	// Dashboard answers everything at and below /dashboard of the public
	// interface. Nil: there is none.
	Dashboard http.Handler
}

// An API serves HTTP. Make it with New.
type API struct {
	options Options
	origins map[string]bool
	count   atomic.Uint64
	askers  []*asker // one for each enclave

	addresses *pace.Buckets[netip.Addr]
}

// New makes an API and tells metrics where to read.
func New(o Options) *API {
	a := &API{options: o, addresses: pace.New[netip.Addr](o.AddressRate, maxAddresses)}
	if len(o.Origins) > 0 && o.Origins[0] != "*" {
		a.origins = map[string]bool{}
		for _, origin := range o.Origins {
			a.origins[strings.TrimSuffix(origin, "/")] = true
		}
	}
	if len(o.Enclaves) == 0 {
		o.Enclaves = []Watched{{Enclave: o.Enclave}}
	}
	for _, e := range o.Enclaves {
		a.askers = append(a.askers, &asker{name: e.Name, to: e.Enclave, now: o.Now})
	}
	o.Metrics.watch(a)
	return a
}

// Public is the public interface. With ops it also answers what Ops does.
func (a *API) Public(ops bool) http.Handler {
	t := routes{
		"/public/v1/submit/": {post, isOp, a.door(wire.DoorSubmit)},
		"/public/v1/query/":  {post, isOp, a.door(wire.DoorQuery)},
		"/boot/v1/": {post, func(name string) bool {
			op := wire.BootOperationOf(name)
			return op != nil && op.Public
		}, a.door(wire.DoorBoot)},
	}
	for _, op := range wire.BootOperations {
		if path, keyed := strings.CutSuffix(op.Path, "{key}"); keyed {
			t[path] = route{get, isLiveKey, a.document(op.Name)}
		} else if path != "" {
			t[path] = route{get, nil, a.document(op.Name)}
		}
	}
	if ops {
		a.addOps(t)
	}
	if a.options.Dashboard == nil {
		return a.wrap(t)
	}
	return a.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dashboard" || strings.HasPrefix(r.URL.Path, "/dashboard/") {
			a.options.Dashboard.ServeHTTP(w, r)
			return
		}
		t.ServeHTTP(w, r)
	}))
}

// Ops is /healthz, /readyz and /metrics.
func (a *API) Ops() http.Handler {
	t := routes{}
	a.addOps(t)
	return a.wrap(t)
}

// Proxy is the auth proxy. Its origins are for each configuration to say, which a
// browser's question beforehand cannot name: that is answered to everybody, and the
// enclave tells of each reply whether the page may read it.
func (a *API) Proxy() http.Handler {
	return a.wrapWith(routes{"/v1/": {post, isOp, a.door(wire.DoorProxy)}}, crossAny)
}

// routes are what answers, by path. A path that ends with a slash has one name behind it.
type routes map[string]route

type route struct {
	methods []string
	name    func(string) bool // tells whether it may be this one; nil: there is none
	answer  func(w http.ResponseWriter, r *http.Request, name string)
}

var post, get = []string{http.MethodPost}, []string{http.MethodGet, http.MethodHead}

// ServeHTTP takes a path as it is and redirects never.
func (t routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, name := r.URL.Path, ""
	to, ok := t[path]
	if !ok {
		i := strings.LastIndexByte(path, '/') + 1
		name = path[i:]
		to, ok = t[path[:i]]
	}
	switch {
	case !ok || to.name != nil && !to.name(name):
		refuse(w, http.StatusNotFound, codeNotFound, "path not found")
	case !slices.Contains(to.methods, r.Method):
		refuse(w, http.StatusMethodNotAllowed, codeUnimplemented, "method not allowed")
	default:
		to.answer(w, r, name)
	}
}

// isOp tells whether name may be that of an operation.
func isOp(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isLiveKey tells whether name may be a live key: 130 bytes.
func isLiveKey(name string) bool {
	return len(name) == 260 && strings.Trim(name, "0123456789abcdef") == ""
}

func (a *API) addOps(t routes) {
	for path, h := range map[string]http.HandlerFunc{"/healthz": a.health, "/readyz": a.ready, "/metrics": a.options.Metrics.handler().ServeHTTP} {
		t[path] = route{get, nil, func(w http.ResponseWriter, r *http.Request, _ string) { h(w, r) }}
	}
}

// Server wraps a handler in a server with this package's time-outs. The caller
// gives it an address, or a listener, and ends it.
func (a *API) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + a.options.Wait + 10*time.Second,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       remember,
		ErrorLog:          slog.NewLogLogger(a.options.Log.Handler(), slog.LevelDebug),
	}
}
