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

// ErrTakesNothing says of a store that it answers and does not take what the enclave decides: its disk is full, or it is a
// standby. Requests get 503 meanwhile.
var ErrTakesNothing = errors.New("store takes nothing")

// A Watched is one enclave by the name that metrics have for it: its address.
type Watched struct {
	Name    string
	Enclave Enclave
}

// Options of an API. Enclaves, Origins, TrustForwarded, AddressRate, AttestationAge,
// Outbox, Certificates, Logs, Tiles and Dashboard may be zero.
type Options struct {
	Enclave Enclave
	// Enclaves are the same one by one, for whoever watches. None: Enclave is the only
	// one, and has no name.
	Enclaves []Watched
	// Ping asks whether the store answers. An error that is ErrTakesNothing says that it does, and cannot be written to.
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
	// Logs tells how logs and their witnesses do. Nil: nothing is told.
	Logs func() []cosign.Status
	// Tiles are the logs for everybody, at and below /log/ of the public interface. Nil: there are none.
	Tiles *tiles.Server
	// Dashboard answers everything at and below /dashboard of the public
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
	reading   chan struct{}         // questions for logs that are under way
}

// New makes an API and tells metrics where to read.
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

// Public is the public interface. With ops it also answers what Ops does.
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

// Ops is /healthz, /readyz, /metrics and LogsPath.
func (a *API) Ops() http.Handler {
	r := a.router()
	a.addOps(r)
	return a.wrap(r)
}

// Proxy is the auth proxy. Its origins are for each configuration to say, which a
// browser's question beforehand cannot name: that is answered to everybody, and the
// enclave tells of each reply whether the page may read it.
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
