package rig

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/shared/wire"
)

// Serve serves the public interface over HTTP, and returns its URL. It ends with the test.
func (r *Rig) Serve() string { return ServeHTTP(r.t, NewAPI(r.Link).Public(true)) }

// ServeProxy serves the auth proxy likewise.
func (r *Rig) ServeProxy() string { return ServeHTTP(r.t, NewAPI(r.Link).Proxy()) }

// NewAPI is a host's HTTP server before an enclave. Its options may be changed.
func NewAPI(e api.Enclave, change ...func(*api.Options)) *api.API {
	o := api.Options{Enclave: e, Ping: func(context.Context) error { return nil }, Metrics: api.NewMetrics(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Boot: "test", Wait: wire.MaxWait}
	for _, f := range change {
		f(&o)
	}
	return api.New(o)
}

// ServeHTTP serves a handler on loopback until the test ends, and returns the URL.
func ServeHTTP(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
