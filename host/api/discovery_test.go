package api_test

import (
	"context"
	"net/http"
	"testing"

	"cloister/shared/wire"
)

func TestDiscovery(t *testing.T) {
	for _, c := range []struct{ path, op, cache string }{
		{"/public/v1/discovery/keys", "discovery_keys", "public, max-age=60"},
		{"/public/v1/discovery/webhooks/jwks", "webhook_jwks", "public, max-age=86400"},
	} {
		t.Run(c.op, func(t *testing.T) { discovers(t, c.path, c.op, c.cache) })
	}
}

func discovers(t *testing.T, path, op, cache string) {
	r := start(t, nil)
	at := r.at + path
	got := send(t, http.MethodGet, at, nil, "X-Stamp", "not passed on", "Origin", "https://app.example")
	if got.status != 200 || got.body != `{"yes":true}` || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", got)
	}
	if got.header.Get("Cache-Control") != cache || got.header.Get("Vary") != "Origin, X-Cloister-Sign-Reply" || got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%+v", got.header)
	}
	if call := r.last(t); call.Endpoint != wire.EndpointBoot || call.Op != op || len(call.Body)+len(call.Head) != 0 || call.From.Address != "127.0.0.1" {
		t.Errorf("%+v", call)
	}
	if got := send(t, http.MethodHead, at, nil); got.status != 200 || got.body != "" || got.header.Get("Cache-Control") == "" {
		t.Errorf("%+v", got)
	}
	if got := post(t, r.at+"/public/v1/query/whoami", "{}"); got.header.Get("Cache-Control") != "" {
		t.Errorf("other answers are kept: %+v", got.header)
	}
	// What is no success nobody keeps.
	r.peer.mu.Lock()
	r.answer = func(context.Context, *wire.Call) *wire.Reply {
		return &wire.Reply{Status: 503, Body: []byte(`{"code":14,"message":"no","details":[]}`)}
	}
	r.peer.mu.Unlock()
	if got := send(t, http.MethodGet, at, nil); got.status != 503 || got.header.Get("Cache-Control") != "" {
		t.Errorf("%+v", got)
	}
	isError(t, post(t, at, "{}"), http.StatusMethodNotAllowed, 12)
	isError(t, send(t, http.MethodGet, at+"/", nil), http.StatusNotFound, 5)
	isError(t, send(t, http.MethodGet, at[:len(at)-1], nil), http.StatusNotFound, 5)
}

// What others need who verify our identity tokens stands where OpenID Connect
// looks for it.
func TestDiscoveryOfTheIssuer(t *testing.T) {
	r := start(t, nil)
	for path, op := range map[string]string{"/.well-known/openid-configuration": "discovery_openid", "/.well-known/jwks.json": "discovery_openid_keys"} {
		got := send(t, http.MethodGet, r.at+path, nil, "X-Stamp", "not passed on")
		if got.status != 200 || got.body != `{"yes":true}` || got.header.Get("Cache-Control") != "public, max-age=60" {
			t.Errorf("%s: %+v", path, got)
		}
		if call := r.last(t); call.Endpoint != wire.EndpointBoot || call.Op != op || len(call.Body)+len(call.Head) != 0 {
			t.Errorf("%s: %+v", path, call)
		}
		isError(t, post(t, r.at+path, "{}"), http.StatusMethodNotAllowed, 12)
	}
}
