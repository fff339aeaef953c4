// Package api is the host's HTTP server: the public interface, the auth proxy,
// and the health and metrics endpoints of the operator.
//
// What it promises:
//
//   - A body reaches the enclave byte for byte, unparsed, and the enclave's
//     reply goes out unchanged, as application/json.
//   - The host's own errors have the enclave's error shape: unknown path, wrong
//     method, too large, too slow, enclave unavailable, and its own faults.
//   - Every request is bounded before work begins: header, body, time to send
//     it, time to answer it, and the rate of its address if one is set.
//   - No log line and no metric holds a body, a credential header or a query
//     string; an operation's name becomes a label only after the enclave
//     answered it with success.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"cloister/host/cosign"
	"cloister/host/link"
	"cloister/host/outage"
	"cloister/host/tiles"
	"cloister/shared/pace"
	"cloister/shared/wire"

	"github.com/gorilla/mux"
)

// Limits of one HTTP request. The body is bounded by wire.MaxBody.
const (
	maxHeader     = wire.MaxHead // bytes of all headers; net/http grants 4 KiB more
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxID         = 64 // bytes of a caller's X-Request-Id
	// grace is how much longer than Options.Wait the host waits, so that the
	// enclave's own time-out error arrives.
	grace = time.Second
)

// An Enclave answers calls. *link.Link is one.
type Enclave interface {
	Call(ctx context.Context, call *wire.Call) (*wire.Reply, error)
	Ready() error
	Stats() link.Stats
}

// ErrTakesNothing is the error of a store that can be read and not written: its disk is full, or it is a standby. Requests get
// 503 meanwhile.
var ErrTakesNothing = errors.New("store takes nothing")

// A Watched is one enclave with its label in metrics, which is its address.
type Watched struct {
	Name    string
	Enclave Enclave
}

// Options of an API. Enclaves, Origins, TrustForwarded, AddressRate, AttestationAge,
// Outbox, Certificates, Logs, Tiles and Dashboard may be zero.
type Options struct {
	Enclave Enclave
	// Enclaves are the enclaves that Enclave routes to, for status and metrics. None:
	// Enclave is the only one, and has no name.
	Enclaves []Watched
	// Ping checks the store. An error that is ErrTakesNothing means that it can be read and not written.
	Ping    func(context.Context) error
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time
	// Boot identifies this process in request ids: a few random letters.
	Boot string
	// Origins are the web origins that browsers may call from; none means any.
	Origins []string
	// Wait is the time limit of a call, at most wire.MaxWait.
	Wait time.Duration
	// TrustForwarded takes the caller's address from the last entry of
	// X-Forwarded-For, which a proxy in front must set.
	TrustForwarded bool
	// AddressRate is the rate limit of one address. The zero Rate sets no limit.
	AddressRate pace.Rate
	// AttestationAge is the age from which an attestation document makes the
	// host not ready. 0: no limit.
	AttestationAge time.Duration
	// Outbox counts the sends in the outbox. Nil: no such metrics.
	Outbox func(context.Context) (Outbox, error)
	// Certificates returns the expiry of the certificate of each name. Nil: there
	// are none.
	Certificates func() map[string]time.Time
	// Logs returns the state of each log and its witnesses. Nil: no such metrics.
	Logs func() []cosign.Status
	// Tiles serves the public logs, at and below /log/ of the public interface. Nil: there are none.
	Tiles *tiles.Server
	// Dashboard serves everything at and below /dashboard of the public
	// interface. Nil: there is none.
	Dashboard http.Handler
}

// An API serves HTTP. Make it with New.
type API struct {
	options Options
	origins map[string]bool
	count   atomic.Uint64
	askers  []*statusCache // one for each enclave
	outages *outage.Log

	addresses *pace.Sources[struct{}]
	refusals  pace.Refusals[string] // by credential
	reading   chan struct{}         // a semaphore: requests that read a log
}

// New makes an API and registers its metrics.
func New(o Options) *API {
	a := &API{options: o, outages: outage.New(o.Log, o.Now), addresses: pace.NewSources[struct{}](o.AddressRate, maxAddresses), reading: make(chan struct{}, maxReading)}
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
		a.askers = append(a.askers, &statusCache{name: e.Name, to: e.Enclave, now: o.Now})
	}
	o.Metrics.watch(a)
	return a
}

// Public returns the handler of the public interface. With ops it also serves the paths of Ops.
func (a *API) Public(ops bool) http.Handler {
	r := a.router()
	r.HandleFunc("/public/v1/submit/{op:[a-z0-9_]+}", a.handleCall(wire.EndpointSubmit)).Methods(http.MethodPost)
	r.HandleFunc("/public/v1/query/{op:[a-z0-9_]+}", a.handleCall(wire.EndpointQuery)).Methods(http.MethodPost)
	r.HandleFunc("/tkhq/api/v1/{op:noop-codegen-anchor|refresh_feature_flags|test_rate_limits}", func(w http.ResponseWriter, q *http.Request) {
		refuse(w, http.StatusNotImplemented, codeUnimplemented, "UNIMPLEMENTED: "+mux.Vars(q)["op"]+": internal to the hosted service; rates and features are the operator's settings here")
	}).Methods(http.MethodPost)
	for _, op := range wire.BootOperations {
		if op.Public {
			r.HandleFunc("/boot/v1/{op:"+op.Name+"}", a.handleCall(wire.EndpointBoot)).Methods(http.MethodPost)
		}
		if op.Path != "" {
			r.HandleFunc(strings.Replace(op.Path, "{key}", "{key:[0-9a-f]{260}}", 1), a.document(op.Name)).Methods(http.MethodGet, http.MethodHead)
		}
	}
	if a.options.Dashboard != nil {
		r.Handle("/", http.RedirectHandler("/dashboard/", http.StatusFound)).Methods(http.MethodGet, http.MethodHead)
		r.Handle("/dashboard", a.options.Dashboard)
		r.PathPrefix("/dashboard/").Handler(a.options.Dashboard)
	}
	if a.options.Tiles != nil {
		a.addLogs(r)
	}
	if ops {
		a.addOps(r)
	}
	return a.wrap(r)
}

// Ops returns the handler of /healthz, /readyz, /metrics and LogsPath.
func (a *API) Ops() http.Handler {
	r := a.router()
	a.addOps(r)
	return a.wrap(r)
}

// Proxy returns the handler of the auth proxy. Each proxy configuration lists its own
// origins, and a preflight request names no configuration: so every preflight is allowed,
// and the enclave decides for each reply whether the page may read it.
func (a *API) Proxy() http.Handler {
	r := a.router()
	r.HandleFunc("/v1/{op:[a-z0-9_]+}", a.handleCall(wire.EndpointProxy)).Methods(http.MethodPost)
	return a.wrapWith(r, crossAny)
}

func (a *API) router() *mux.Router {
	r := mux.NewRouter().SkipClean(true) // a path is taken as it is, never redirected
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, codeNotFound, "path not found")
	})
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusMethodNotAllowed, codeUnimplemented, "method not allowed")
	})
	return r
}

func (a *API) addOps(r *mux.Router) {
	get := func(path string, h http.Handler) { r.Handle(path, h).Methods(http.MethodGet, http.MethodHead) }
	get("/healthz", http.HandlerFunc(a.health))
	get("/readyz", http.HandlerFunc(a.ready))
	get("/metrics", a.options.Metrics.handler())
	get(LogsPath, http.HandlerFunc(a.logStatuses))
}

// Server returns an HTTP server for h with this package's time-outs. The caller
// starts it, with an address or a listener, and shuts it down.
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
