package api_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloister/shared/wire"
)

// signed are the headers of a signed reply.
var signed = map[string]string{"X-Cloister-Reply-Signature": "0708", "X-Cloister-Reply-Time": "1767225600123", "X-Cloister-Live-Key": "0401",
	"X-Cloister-Deployment": "02" + strings.Repeat("00", 31)}

func signs(r *rig) {
	r.peer.mu.Lock()
	defer r.peer.mu.Unlock()
	r.answer = func(_ context.Context, c *wire.Call) *wire.Reply {
		reply := &wire.Reply{Status: 403, Body: []byte("{ \"as\" :\t\"it is\"}\n"), Readable: true}
		if slices.ContainsFunc(c.Head, func(h wire.Header) bool { return h.Name == wire.HeaderSignReply }) {
			reply.Signed = &wire.Signed{Deployment: wire.Hash{2}, LiveKey: []byte{4, 1}, TimeMs: 1767225600123, Signature: []byte{7, 8}}
		}
		return reply
	}
}

// A wish for a signature goes in as it came, the signature out beside a body that
// nobody touched, and a page of another origin may read it.
func TestSignedReplies(t *testing.T) {
	r := start(t, nil)
	signs(r)
	for _, at := range []string{r.at + "/public/v1/submit/x", r.at + "/public/v1/query/x", r.at + "/boot/v1/keys", r.proxy + "/v1/x"} {
		got := post(t, at, "{}", "X-Cloister-Sign-Reply", "nonce-1_A", "Origin", "https://app.example", "Accept-Encoding", "gzip, br, deflate")
		if got.status != 403 || got.body != "{ \"as\" :\t\"it is\"}\n" || got.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %+v", at, got)
		}
		exposed := ", " + strings.ToLower(got.header.Get("Access-Control-Expose-Headers")) + ","
		for name, want := range signed {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q", at, name, got.header.Get(name))
			}
			if !strings.Contains(exposed, ", "+strings.ToLower(name)+",") {
				t.Errorf("%s: a page may not read %s", at, name)
			}
		}
		if head := r.last(t).Head; !slices.Equal(head, []wire.Header{{Name: "X-Cloister-Sign-Reply", Value: "nonce-1_A"}}) {
			t.Errorf("%s: %+v", at, head)
		}
		if got := post(t, at, "{}"); got.header.Get("X-Cloister-Reply-Signature") != "" || got.header.Get("X-Cloister-Live-Key") != "" {
			t.Errorf("%s: a signature that nobody wanted: %+v", at, got.header)
		}
		allowed := send(t, http.MethodOptions, at, nil, "Origin", "https://app.example", "Access-Control-Request-Headers", "x-cloister-sign-reply").header.Get("Access-Control-Allow-Headers")
		if !strings.Contains(allowed, ", x-cloister-sign-reply") {
			t.Errorf("%s: a page may not ask: %q", at, allowed)
		}
	}
}

// A wish for a logged proof goes in at every endpoint, for the enclave to grant or to refuse, and a page may have it.
func TestLogProofHeader(t *testing.T) {
	r := start(t, nil)
	signs(r)
	for _, at := range []string{r.at + "/public/v1/submit/x", r.at + "/public/v1/query/x", r.at + "/boot/v1/keys", r.proxy + "/v1/x"} {
		post(t, at, "{}", "X-Cloister-Log-Proof", "wait", "X-Cloister-Sign-Reply", "n")
		if head := r.last(t).Head; !slices.Equal(head, []wire.Header{{Name: "X-Cloister-Sign-Reply", Value: "n"}, {Name: "X-Cloister-Log-Proof", Value: "wait"}}) {
			t.Errorf("%s: %+v", at, head)
		}
		allowed := send(t, http.MethodOptions, at, nil, "Origin", "https://app.example", "Access-Control-Request-Headers", "x-cloister-log-proof").header.Get("Access-Control-Allow-Headers")
		if !strings.Contains(allowed, ", x-cloister-log-proof") {
			t.Errorf("%s: a page may not ask: %q", at, allowed)
		}
	}
}

// What the host says by itself carries no signature, whoever asks for one.
func TestOwnAnswersAreUnsigned(t *testing.T) {
	r := start(t, nil)
	signs(r)
	headers := []string{"X-Cloister-Sign-Reply", "n", "Origin", "https://app.example"}
	all := []response{
		post(t, r.at+"/nothing", "{}", headers...), send(t, http.MethodPut, r.at+"/public/v1/query/x", nil, headers...),
		post(t, r.at+"/public/v1/query/x", strings.Repeat("x", wire.MaxBody+1), headers...), send(t, http.MethodGet, r.at+"/healthz", nil, headers...),
	}
	r.leave(r.listen)
	away := post(t, r.at+"/public/v1/query/x", "{}", headers...)
	if away.status != 503 {
		t.Errorf("%+v", away)
	}
	for i, g := range append(all, away) {
		for name := range signed {
			if g.header.Get(name) != "" {
				t.Errorf("answer %d carries %s", i, name)
			}
		}
	}
}

// A signed document answers one nonce: no cache may hand it to others.
func TestSignedDocumentsAreNotKept(t *testing.T) {
	r := start(t, nil)
	r.peer.mu.Lock()
	r.answer = func(context.Context, *wire.Call) *wire.Reply {
		return &wire.Reply{Status: 200, Body: []byte("{}"), Signed: &wire.Signed{LiveKey: []byte{4}, Signature: []byte{7}}}
	}
	r.peer.mu.Unlock()
	at := r.at + "/public/v1/discovery/keys"
	if got := send(t, http.MethodGet, at, nil, "X-Cloister-Sign-Reply", "n"); got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Cloister-Reply-Signature") != "07" {
		t.Errorf("%+v", got)
	}
	// Whose body nobody sees nobody can check.
	send(t, http.MethodHead, at, nil, "X-Cloister-Sign-Reply", "n")
	if call := r.last(t); len(call.Head) != 0 {
		t.Errorf("%+v", call)
	}
}

// The boot proof of a live key is for everybody, and may be kept: it proves itself.
func TestBootProofOfALiveKey(t *testing.T) {
	r := start(t, nil)
	key := strings.Repeat("0a", 130)
	got := send(t, http.MethodGet, r.at+"/public/v1/discovery/boot_proof/"+key, nil, "X-Cloister-Sign-Reply", "n", "X-Stamp", "s", "Origin", "https://app.example")
	if got.status != 200 || got.header.Get("Cache-Control") != "public, max-age=60" || got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%+v", got)
	}
	if c := r.last(t); c.Endpoint != wire.EndpointBoot || c.Op != "discovery_boot_proof" || string(c.Body) != key || len(c.Head) != 0 {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"", key[1:], key + "0", strings.ToUpper(key), key[2:] + "%2f", strings.Repeat("g", 260)} {
		isError(t, send(t, http.MethodGet, r.at+"/public/v1/discovery/boot_proof/"+bad, nil), http.StatusNotFound, 5)
	}
	isError(t, post(t, r.at+"/public/v1/discovery/boot_proof/"+key, "{}"), http.StatusMethodNotAllowed, 12)
}
