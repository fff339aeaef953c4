package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/host/cosign"
	"cloister/host/link"
	"cloister/host/witness"
	"cloister/shared/wire"
)

// isError holds a response against the shape of the interface's errors.
func isError(t *testing.T, r response, status, code int) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d: %s", r.status, status, r.body)
	}
	if got := r.header["Content-Type"]; len(got) != 1 || got[0] != "application/json" {
		t.Errorf("content type %q", got)
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Errorf("not JSON: %q", r.body)
		return
	}
	details, isArray := e["details"].([]any)
	if message, _ := e["message"].(string); e["code"] != float64(code) || message == "" || !isArray || len(details) != 0 || len(e) != 3 {
		t.Errorf("error is %s, want code %d", r.body, code)
	}
}

func TestCallAndReply(t *testing.T) {
	r := start(t, nil)
	body := `{ "organizationId" : "x",  "é":"\u00e9" }` // must arrive as it is
	for _, c := range []struct {
		path, op string
		endpoint wire.Endpoint
	}{{"/public/v1/submit/", "some_op_2", wire.EndpointSubmit}, {"/public/v1/query/", "some_op_2", wire.EndpointQuery}, {"/boot/v1/", "create_organization", wire.EndpointBoot}} {
		got := post(t, r.at+c.path+c.op, body, "Content-Type", "text/plain", "X-Stamp", "abc", "X-Stamp", "second", "x-stamp-webauthn", `{"a":1}`,
			"X-STAMP-ATTESTED", "at", "X-Session", "s", "Origin", "https://example.com", "Authorization", "not passed on", "X-Client-Version", "v")
		if got.status != 200 || got.body != `{"yes":true}` {
			t.Fatalf("%+v", got)
		}
		if ct := got.header["Content-Type"]; len(ct) != 1 || ct[0] != "application/json" {
			t.Errorf("content type %q", ct)
		}
		if cl := got.header.Get("Content-Length"); cl != fmt.Sprint(len(got.body)) {
			t.Errorf("content length %q", cl)
		}
		call := r.last(t)
		want := wire.Call{Endpoint: c.endpoint, Op: c.op, Body: []byte(body), WithinMs: 300_000, From: wire.From{Address: "127.0.0.1", Origin: "https://example.com"},
			Head: []wire.Header{{Name: "X-Stamp", Value: "abc"}, {Name: "X-Stamp", Value: "second"}, {Name: "X-Stamp-WebAuthn", Value: `{"a":1}`}, {Name: "X-Stamp-Attested", Value: "at"}, {Name: "X-Session", Value: "s"}}}
		if !reflect.DeepEqual(call, want) {
			t.Errorf("call is  %+v\nwant     %+v", call, want)
		}
	}
}

func TestRepliesGoOutAsTheyAre(t *testing.T) {
	r := start(t, nil)
	for _, status := range []int{200, 400, 401, 403, 404, 429, 499, 500, 501, 503} {
		body := fmt.Sprintf(`{"status":%d}`, status)
		r.peer.mu.Lock()
		r.answer = func(context.Context, *wire.Call) *wire.Reply {
			return &wire.Reply{Status: uint16(status), Body: []byte(body)}
		}
		r.peer.mu.Unlock()
		got := post(t, r.at+"/public/v1/query/whoami", "{}")
		if got.status != status || got.body != body || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v", got)
		}
	}
}

func TestContentTypeAndBodyMayBeMissing(t *testing.T) {
	r := start(t, nil)
	if got := send(t, http.MethodPost, r.at+"/public/v1/query/whoami", nil); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	if call := r.last(t); len(call.Body) != 0 {
		t.Fatalf("%q", call.Body)
	}
}

func TestPathsAndMethods(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"/", "/public", "/public/v1/query/", "/public/v1/query/who/am", "/public/v1/query/WhoAmI", "/public/v2/query/whoami", "/public/v1/query/whoami/",
		"//public/v1/query/whoami", "/public/v1/../v1/query/whoami", "/public/v1/query/who%2fami", "/public/v1/query/who-ami", "/public/v1/query/" + strings.Repeat("a", wire.MaxOp+1)} {
		isError(t, post(t, r.at+path, "{}"), http.StatusNotFound, 5)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch, "FOO"} {
		isError(t, send(t, method, r.at+"/public/v1/query/whoami", nil), http.StatusMethodNotAllowed, 12)
	}
	isError(t, send(t, http.MethodPost, r.at+"/healthz", nil), http.StatusMethodNotAllowed, 12)
	for _, op := range []string{"noop-codegen-anchor", "refresh_feature_flags", "test_rate_limits"} { // internal to the hosted service
		isError(t, post(t, r.at+"/tkhq/api/v1/"+op, "{}"), http.StatusNotImplemented, 12)
	}
	isError(t, post(t, r.at+"/tkhq/api/v1/other", "{}"), http.StatusNotFound, 5)
	r.peer.mu.Lock()
	defer r.peer.mu.Unlock()
	if len(r.calls) != 0 {
		t.Fatalf("%d calls reached the enclave", len(r.calls))
	}
}

func TestSizeLimits(t *testing.T) {
	r := start(t, nil)
	at := r.at + "/public/v1/submit/x"
	if got := post(t, at, strings.Repeat("a", wire.MaxBody)); got.status != 200 {
		t.Fatalf("a body of the largest size: %+v", got)
	}
	if call := r.last(t); len(call.Body) != wire.MaxBody {
		t.Fatal(len(call.Body))
	}
	isError(t, post(t, at, strings.Repeat("a", wire.MaxBody+1)), http.StatusRequestEntityTooLarge, 3)
	// Chunked: nobody says how long it will be.
	chunked := struct{ io.Reader }{strings.NewReader(strings.Repeat("a", wire.MaxBody))}
	if got := send(t, http.MethodPost, at, chunked); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	chunked = struct{ io.Reader }{strings.NewReader(strings.Repeat("a", wire.MaxBody+1))}
	isError(t, send(t, http.MethodPost, at, chunked), http.StatusRequestEntityTooLarge, 3)
	isError(t, post(t, at, "{}", "X-Stamp", strings.Repeat("a", wire.MaxHead)), http.StatusRequestHeaderFieldsTooLarge, 3)
	isError(t, post(t, at, "{}", "X-Stamp", strings.Repeat("a", 9000), "X-Session", strings.Repeat("a", 9000)), http.StatusRequestHeaderFieldsTooLarge, 3)
	if got := post(t, at, "{}", "X-Other", strings.Repeat("a", 64<<10)); got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("%d", got.status)
	}
}

// TestBodyThatIsCut: less than Content-Length promises never reaches the enclave.
func TestBodyThatIsCut(t *testing.T) {
	r := start(t, nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /public/v1/query/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(b), "HTTP/1.1 400 ") {
		t.Fatalf("%q", b)
	}
	r.peer.mu.Lock()
	defer r.peer.mu.Unlock()
	if len(r.calls) != 0 {
		t.Fatal("a cut body reached the enclave")
	}
}

func TestEnclaveAway(t *testing.T) {
	r := start(t, nil)
	r.leave(r.listen)
	waitFor(t, func() bool { return r.link.Stats().Connected == 0 })
	isError(t, post(t, r.at+"/public/v1/submit/x", "{}"), http.StatusServiceUnavailable, 14)
}

// Everybody may ask for these operations of the boot endpoint and for no other, whatever
// the table says of them.
func TestPublicBootOperations(t *testing.T) {
	r := start(t, nil)
	public := []string{"status", "keys", "discovery_boot_proof", "create_organization", "put_plans"}
	for _, op := range wire.BootOperations {
		if slices.Contains(public, op.Name) {
			if got := post(t, r.at+"/boot/v1/"+op.Name, "{}"); got.status != 200 {
				t.Errorf("%s: %+v", op.Name, got)
			}
			isError(t, send(t, http.MethodGet, r.at+"/boot/v1/"+op.Name, nil), http.StatusMethodNotAllowed, 12)
			continue
		}
		isError(t, post(t, r.at+"/boot/v1/"+op.Name, `{"ranges":[0]}`), http.StatusNotFound, 5)
	}
	isError(t, post(t, r.at+"/boot/v1/nothing", "{}"), http.StatusNotFound, 5)
}

func TestEnclaveTurnsAway(t *testing.T) {
	r := start(t, nil)
	r.answer = func(context.Context, *wire.Call) *wire.Reply { return nil }
	isError(t, post(t, r.at+"/public/v1/submit/x", "{}"), http.StatusServiceUnavailable, 14)
}

func TestEnclaveTooSlow(t *testing.T) {
	r := start(t, func(o *api.Options) { o.Wait = time.Millisecond })
	var began, ended atomic.Int32
	r.answer = func(ctx context.Context, _ *wire.Call) *wire.Reply {
		began.Add(1)
		<-ctx.Done()
		ended.Add(1)
		return nil
	}
	waitFor(t, func() bool { // a call may be over before it has reached the enclave
		isError(t, post(t, r.at+"/public/v1/submit/x", "{}"), http.StatusGatewayTimeout, 4)
		return began.Load() > 0
	})
	waitFor(t, func() bool { return ended.Load() == began.Load() })
}

func TestRepliesThatMakeNoSense(t *testing.T) {
	r := start(t, nil)
	for name, reply := range map[string]wire.Reply{
		"no status":       {Status: 0, Body: []byte("{}")},
		"informational":   {Status: 100, Body: []byte("{}")},
		"no such status":  {Status: 1000, Body: []byte("{}")},
		"another request": {Status: 200, Body: []byte("{}"), Request: sha256.Sum256([]byte("other"))},
	} {
		r.peer.mu.Lock()
		r.answer = func(context.Context, *wire.Call) *wire.Reply { one := reply; return &one }
		r.peer.mu.Unlock()
		t.Run(name, func(t *testing.T) {
			isError(t, post(t, r.at+"/public/v1/submit/x", "{}"), http.StatusInternalServerError, 13)
		})
	}
}

func TestCallerLeaves(t *testing.T) {
	r := start(t, nil)
	started, ended := make(chan struct{}), make(chan struct{})
	r.answer = func(ctx context.Context, _ *wire.Call) *wire.Reply {
		close(started)
		<-ctx.Done()
		close(ended)
		return nil
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-started; leave() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.at+"/public/v1/submit/x", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Fatal("answered")
	}
	<-ended // the enclave was told
}

func TestCrossOrigin(t *testing.T) {
	needed := []string{"content-type", "x-stamp", "x-stamp-webauthn", "x-stamp-attested", "x-client-version", "x-auth-proxy-config-id", "x-captcha-token"}
	r := start(t, nil)
	for _, base := range []string{r.at, r.proxy} {
		for _, path := range []string{"/public/v1/submit/x", "/v1/signup", "/anything"} {
			got := send(t, http.MethodOptions, base+path, nil, "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", strings.Join(needed, ","))
			if got.status/100 != 2 || got.header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(got.header.Get("Access-Control-Allow-Methods"), "POST") {
				t.Errorf("%s: %+v", path, got)
			}
			for _, name := range needed {
				if !strings.Contains(", "+got.header.Get("Access-Control-Allow-Headers")+",", ", "+name+",") {
					t.Errorf("%s: %s is not allowed", path, name)
				}
			}
		}
		if got := post(t, base+"/nothing", "{}", "Origin", "https://app.example"); got.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("errors must be readable too: %+v", got)
		}
	}
	if got := post(t, r.at+"/public/v1/query/x", "{}", "Origin", "https://app.example"); got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%+v", got)
	}
}

func TestCrossOriginList(t *testing.T) {
	r := start(t, func(o *api.Options) { o.Origins = []string{"https://app.example", "https://two.example/"} })
	for _, origin := range []string{"https://app.example", "https://two.example"} {
		got := send(t, http.MethodOptions, r.at+"/public/v1/query/x", nil, "Origin", origin)
		if got.header.Get("Access-Control-Allow-Origin") != origin || got.header.Get("Vary") != "Origin" || got.status != 204 {
			t.Errorf("%+v", got)
		}
	}
	for _, origin := range []string{"https://evil.example", "http://app.example", "https://app.example.evil", "null", "*", ""} {
		got := send(t, http.MethodOptions, r.at+"/public/v1/query/x", nil, "Origin", origin)
		if len(got.header["Access-Control-Allow-Origin"]) != 0 || got.status != 204 {
			t.Errorf("%q: %+v", origin, got)
		}
	}
}

// The enclave is told of configuration, captcha, origin and body, and of no stamp:
// nobody stamps in calls to the proxy.
func TestProxyCalls(t *testing.T) {
	r := start(t, nil)
	post(t, r.proxy+"/v1/otp_init", "body", "x-auth-proxy-config-id", "abc", "X-Captcha-Token", "cap", "X-Stamp", "s", "X-Session", "s", "Origin", "https://app.example")
	c := r.last(t)
	want := []wire.Header{{Name: "X-Auth-Proxy-Config-Id", Value: "abc"}, {Name: "X-Captcha-Token", Value: "cap"}}
	if c.Endpoint != wire.EndpointProxy || c.Op != "otp_init" || string(c.Body) != "body" || !slices.Equal(c.Head, want) || c.From.Origin != "https://app.example" || c.From.Address != "127.0.0.1" {
		t.Errorf("%+v", c)
	}
	post(t, r.proxy+"/v1/account", "{}", "Origin", "https://one.example", "Origin", "https://two.example")
	if c := r.last(t); c.From.Origin != "" {
		t.Errorf("%+v", c)
	}
	post(t, r.at+"/public/v1/query/x", "{}", "X-Auth-Proxy-Config-Id", "abc")
	if c := r.last(t); len(c.Head) != 0 {
		t.Errorf("at another endpoint: %+v", c)
	}
}

// A page may read what the enclave says it may, and the host's own errors; the
// list of the public interface's origins is another matter.
func TestProxyOrigins(t *testing.T) {
	r := start(t, func(o *api.Options) { o.Origins = []string{"https://dashboard.example"} })
	for _, readable := range []bool{true, false} {
		r.peer.mu.Lock()
		r.answer = func(context.Context, *wire.Call) *wire.Reply {
			return &wire.Reply{Status: 403, Body: []byte("{}"), Readable: readable}
		}
		r.peer.mu.Unlock()
		got := post(t, r.proxy+"/v1/account", "{}", "Origin", "https://app.example")
		if has := got.header.Get("Access-Control-Allow-Origin"); (has == "*") != readable || len(got.header["Access-Control-Allow-Credentials"]) != 0 {
			t.Errorf("readable %v: %v", readable, got.header)
		}
	}
	if got := post(t, r.at+"/public/v1/query/x", "{}", "Origin", "https://dashboard.example"); got.header.Get("Access-Control-Allow-Origin") != "https://dashboard.example" {
		t.Errorf("the public interface: %v", got.header)
	}
	isError(t, send(t, http.MethodGet, r.proxy+"/v1/account", nil), http.StatusMethodNotAllowed, 12)
	got := post(t, r.proxy+"/v1/a/b", "{}", "Origin", "https://app.example")
	isError(t, got, http.StatusNotFound, 5)
	if got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%v", got.header)
	}
	if got := send(t, http.MethodOptions, r.proxy+"/v1/account", nil, "Origin", "https://any.example"); got.status != 204 || got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%+v", got)
	}
}

func TestRequestIDs(t *testing.T) {
	r := start(t, nil)
	seen := map[string]bool{}
	for range 3 {
		id := post(t, r.at+"/public/v1/query/x", "{}").header.Get("X-Request-Id")
		if id == "" || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
	if got := post(t, r.at+"/public/v1/query/x", "{}", "X-Request-Id", "mine-1.a_B").header.Get("X-Request-Id"); got != "mine-1.a_B" {
		t.Fatal(got)
	}
	for _, bad := range []string{"two words", "a/b", strings.Repeat("a", 65), `"`, "é"} {
		if got := post(t, r.at+"/public/v1/query/x", "{}", "X-Request-Id", bad).header.Get("X-Request-Id"); got == bad {
			t.Errorf("%q was taken over", bad)
		}
	}
}

func TestAddressOfTheCaller(t *testing.T) {
	r := start(t, func(o *api.Options) { o.TrustForwarded = true })
	for header, want := range map[string]string{"192.0.2.7": "192.0.2.7", "10.0.0.1, 192.0.2.8": "192.0.2.8", "2001:db8::1": "2001:db8::1", "192.0.2.7, nonsense": "", "": ""} {
		post(t, r.at+"/public/v1/query/x", "{}", "X-Forwarded-For", header)
		if got := r.last(t).From.Address; got != want {
			t.Errorf("%q gives %q, want %q", header, got, want)
		}
	}
	post(t, r.at+"/public/v1/query/x", "{}")
	if got := r.last(t).From.Address; got != "127.0.0.1" {
		t.Error(got)
	}
	plain := start(t, nil)
	post(t, plain.at+"/public/v1/query/x", "{}", "X-Forwarded-For", "192.0.2.7")
	if got := plain.last(t).From.Address; got != "127.0.0.1" {
		t.Errorf("a header of anybody was believed: %q", got)
	}
}

func TestLogsHoldNoSecrets(t *testing.T) {
	r := start(t, nil)
	post(t, r.at+"/public/v1/submit/visible_op?q=hidden-query", "hidden-body", "X-Stamp", "hidden-stamp", "X-Session", "hidden-session", "X-Stamp-WebAuthn", "hidden-webauthn")
	r.answer = func(context.Context, *wire.Call) *wire.Reply {
		return &wire.Reply{Status: 7, Body: []byte("hidden-reply")}
	}
	post(t, r.at+"/public/v1/submit/visible_op", "hidden-body", "X-Stamp", "hidden-stamp")
	if out := r.logs.String(); !strings.Contains(out, "visible_op") || strings.Contains(out, "hidden") {
		t.Fatal(out)
	}
}

type panicking struct{ api.Enclave }

func (panicking) Call(context.Context, *wire.Call) (*wire.Reply, error) { panic("hidden text") }

func TestPanics(t *testing.T) {
	r := start(t, func(o *api.Options) { o.Enclave = panicking{o.Enclave} })
	isError(t, post(t, r.at+"/public/v1/submit/x", "{}"), http.StatusInternalServerError, 13)
	if out := r.logs.String(); !strings.Contains(out, "panic") || strings.Contains(out, "hidden") {
		t.Fatal(out)
	}
	if got := send(t, http.MethodGet, r.at+"/healthz", nil); got.status != 200 {
		t.Fatalf("%+v", got)
	}
}

// A standing is an enclave that only says how it is, and its logs.
type standing struct{ says, logs string }

func (s standing) Ready() error      { return nil }
func (s standing) Stats() link.Stats { return link.Stats{} }
func (s standing) Call(_ context.Context, c *wire.Call) (*wire.Reply, error) {
	if s.says == "" {
		return nil, link.ErrUnavailable
	}
	if c.Op == wire.OpLogs {
		return &wire.Reply{Status: 200, Body: []byte(`{"logs":[` + s.logs + `]}`)}, nil
	}
	return &wire.Reply{Status: 200, Body: []byte(s.says)}, nil
}

// TestReadinessOfSeveral: a host is ready as long as one of its enclaves serves, and
// tells of each.
func TestReadinessOfSeveral(t *testing.T) {
	const serving, waiting, old = `{"state":"serving","attestationAgeMs":1}`, `{"state":"seed","shares":{"threshold":2,"operators":3,"have":[3],"generation":1}}`, `{"state":"serving","attestationAgeMs":3600001}`
	for _, c := range []struct {
		name string
		says []string
		want int
		why  string
	}{
		{"both serve", []string{serving, serving}, 200, `"enclave":"ok"`},
		{"one is away", []string{"", serving}, 200, `"enclave":"ok"`},
		{"one waits", []string{serving, waiting}, 200, `"enclave":"ok"`},
		{"the document of one is old", []string{old, serving}, 200, `"attestation":"ok"`},
		{"nobody serves", []string{waiting, ""}, 503, "waits for operators' shares: 1 of 2 given"},
		{"nobody has a manifest", []string{`{"state":"hello"}`, ""}, 503, "waits for its manifest"},
		{"nobody has a root secret", []string{`{"state":"seed"}`, ""}, 503, "waits for the root secret"},
		{"it is early", []string{`{"state":"recovering"}`, ""}, 503, "serves soon"},
		{"it is late", []string{`{"state":"fenced"}`, ""}, 503, "another enclave owns the store"},
		{"a later state", []string{`{"state":"dreaming"}`, ""}, 503, "state is dreaming"},
		{"both are old", []string{old, old}, 503, "document is too old"},
		{"both are away", []string{"", ""}, 503, "no status"},
	} {
		r := start(t, func(o *api.Options) {
			o.Enclaves = []api.Watched{{Name: "vsock://16:5000", Enclave: standing{says: c.says[0]}}, {Name: "vsock://17:5000", Enclave: standing{says: c.says[1]}}}
		})
		if got := send(t, http.MethodGet, r.at+"/readyz", nil); got.status != c.want || !strings.Contains(got.body, c.why) {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
		text := send(t, http.MethodGet, r.at+"/metrics", nil).body
		for i, name := range []string{"vsock://16:5000", "vsock://17:5000"} {
			up := 1
			if c.says[i] == "" {
				up = 0
			}
			if c.says[i] == waiting && !strings.Contains(text, fmt.Sprintf("cloister_enclave_shares{count=\"given\",enclave=%q} 1\n", name)) {
				t.Errorf("%s: nothing of the share that was given", c.name)
			}
			if line := fmt.Sprintf("cloister_enclave_up{enclave=%q} %d\n", name, up); !strings.Contains(text, line) {
				t.Errorf("%s: no line %s", c.name, line)
			}
		}
	}
}

// statusKept is how long the enclave's status is kept.
const statusKept = 500 * time.Millisecond

func TestReadiness(t *testing.T) {
	var c clock
	var full atomic.Bool
	r := start(t, func(o *api.Options) {
		o.Now = c.now
		ping := o.Ping
		o.Ping = func(ctx context.Context) error {
			if full.Load() {
				return fmt.Errorf("%w: database or disk is full (13)", api.ErrTakesNothing)
			}
			return ping(ctx)
		}
	})
	fresh := func() response {
		c.move(statusKept)
		return send(t, http.MethodGet, r.at+"/readyz", nil)
	}
	set := func(status string) { r.peer.mu.Lock(); r.status = status; r.peer.mu.Unlock() }
	if got := fresh(); got.status != 200 || !strings.Contains(got.body, `"ready":true`) {
		t.Fatalf("%+v", got)
	}
	for name, status := range map[string]string{"recovering": `{"state":"recover"}`, "old": `{"state":"serving","attestationAgeMs":3600001}`, "nonsense": `serving`, "nothing": ``} {
		set(status)
		if got := fresh(); got.status != 503 || !strings.Contains(got.body, `"ready":false`) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	set(`{"state":"serving"}`)
	if got := fresh(); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	full.Store(true)
	if got := fresh(); got.status != 503 || !strings.Contains(got.body, `"store":"takes nothing`) || strings.Contains(got.body, "(13)") {
		t.Fatalf("a store that is full: %+v", got)
	}
	if text := send(t, http.MethodGet, r.at+"/metrics", nil).body; !strings.Contains(text, "cloister_store_up 0\n") {
		t.Error("a store that is full is up")
	}
	full.Store(false)
	if got := fresh(); got.status != 200 || strings.Count(r.logs.String(), "store reached again") != 1 {
		t.Errorf("room again: %+v, %s", got, r.logs)
	}
	c.move(time.Minute)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if got := fresh(); got.status != 503 || !strings.Contains(got.body, `"store":"not reached"`) {
			t.Fatalf("%+v", got)
		}
	}
	if n := strings.Count(r.logs.String(), "store not reached"); n != 2 {
		t.Errorf("two absences were logged %d times: %s", n, r.logs)
	}
	r.leave(r.listen)
	waitFor(t, func() bool { return r.link.Stats().Connected == 0 })
	if got := fresh(); got.status != 503 || !strings.Contains(got.body, "enclave unavailable") {
		t.Fatalf("%+v", got)
	}
	if got := send(t, http.MethodGet, r.at+"/healthz", nil); got.status != 200 {
		t.Fatalf("alive all the same: %+v", got)
	}
}

func TestMetrics(t *testing.T) {
	long := strings.Repeat("x", 65)
	var metrics *api.Metrics
	var c clock
	r := start(t, func(o *api.Options) {
		metrics, o.Now = o.Metrics, c.now
		o.Outbox = func(context.Context) (api.Outbox, error) {
			return api.Outbox{Sends: api.Waiting{Count: 3, OldestDue: c.now().Add(time.Hour)}, Webhooks: api.Waiting{Count: 1, OldestDue: c.now().Add(-time.Hour)}, Dead: 2}, nil
		}
		o.Logs = func() []cosign.Status {
			return []cosign.Status{{Range: 3, Size: 900, Cosigned: 899, Witnesses: []cosign.WitnessStatus{
				{Status: witness.Status{Witness: "w0.example", Size: 900, Signed: time.Unix(1_800_000_000, 5e8), Took: 20 * time.Millisecond}},
				{Status: witness.Status{Witness: "w1.example", Size: 7, Other: true}, Owing: time.Minute},
			}}}
		}
		o.Certificates = func() map[string]time.Time {
			return map[string]time.Time{"api.example.com": time.Unix(1_800_000_000, 0)}
		}
	})
	r.peer.status = `{"state":"serving","attestationAgeMs":1000,"bootNumber":4,"deployment":"d1","applicationDigest":"a1","counters":{"alarm_tip":2,"entries":7,"` + long + `":1,"new\nline":1}}`
	post(t, r.at+"/public/v1/query/whoami", "{}")
	post(t, r.at+"/public/v1/query/whoami", "{}")
	r.peer.mu.Lock()
	r.answer = func(_ context.Context, c *wire.Call) *wire.Reply {
		return &wire.Reply{Status: 501, Body: []byte("{}")}
	}
	r.peer.mu.Unlock()
	post(t, r.at+"/public/v1/query/whoami", "{}")
	for i := range 5 {
		post(t, r.at+fmt.Sprint("/public/v1/query/made_up_", i), "{}")
	}
	scrape := func() string {
		got := send(t, http.MethodGet, r.at+"/metrics", nil)
		if got.status != 200 {
			t.Fatalf("%+v", got)
		}
		return got.body
	}
	text := scrape()
	for _, want := range []string{
		`cloister_requests_total{door="query",op="whoami",status="200"} 2`,
		`cloister_requests_total{door="query",op="whoami",status="501"} 1`,
		`cloister_requests_total{door="query",op="other",status="501"} 5`,
		`cloister_request_seconds_count{door="query",op="whoami"} 3`,
		`cloister_phase_seconds_count{phase="execute"} 2`,
		`cloister_phase_seconds_sum{phase="store"} 8e-05`,
		`cloister_enclave_alarms_total{alarm="tip",enclave=""} 2`,
		`cloister_enclave_counter{counter="entries",enclave=""} 7`,
		`cloister_enclave_serving{enclave=""} 1`,
		`cloister_enclave_up{enclave=""} 1`,
		`cloister_enclave_state{enclave="",state="serving"} 1`,
		`cloister_enclave_info{application="a1",deployment="d1",enclave=""} 1`,
		`cloister_enclave_boot_number{enclave=""} 4`,
		`cloister_enclave_attestation_age_limit_seconds 3600`,
		`cloister_link_connections_wanted 9`,
		`cloister_store_up 1`,
		`cloister_batches_total{verdict="conflict"} 0`,
		`cloister_outbox_waiting{lane="sends"} 3`,
		`cloister_outbox_overdue_seconds{lane="sends"} 0`,
		`cloister_outbox_overdue_seconds{lane="webhooks"} 3600`,
		`cloister_outbox_waiting{lane="webhooks"} 1`,
		`cloister_outbox_dead_letters 2`,
		`cloister_log_size{range="3"} 900`,
		`cloister_log_cosigned_size{range="3"} 899`,
		`cloister_witness_size{range="3",witness="w1.example"} 7`,
		`cloister_witness_owing_seconds{range="3",witness="w0.example"} 0`,
		`cloister_witness_owing_seconds{range="3",witness="w1.example"} 60`,
		`cloister_witness_refuses{range="3",witness="w0.example"} 0`,
		`cloister_witness_refuses{range="3",witness="w1.example"} 1`,
		`cloister_witness_signed_timestamp_seconds{range="3",witness="w0.example"} 1.8000000005e+09`,
		`cloister_witness_seconds{range="3",witness="w0.example"} 0.02`,
		`cloister_log_quorum_seconds_count 0`,
		`cloister_certificate_expiry_timestamp_seconds{name="api.example.com"} 1.8e+09`,
		`cloister_enclave_attestation_age_seconds{enclave=""} 1`,
		`cloister_link_connections 9`,
		`cloister_link_breaches_total 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(text, "made_up") {
		t.Error("a name that anybody can make up is a label")
	}
	if strings.Contains(text, long) || strings.Contains(text, `new\nline`) {
		t.Error("a name of the enclave's that is none is a label")
	}
	// The store's part comes from the enclave's own questions.
	r.peer.mu.Lock()
	var ask *wire.Conn
	for _, c := range r.conns {
		p, _ := wire.Marshal(wire.Own{Action: wire.OwnLook})
		if kind, _, err := c.Ask(t.Context(), wire.KindOwn, p); err == nil && kind == wire.KindOwned {
			ask = c
		}
	}
	r.peer.mu.Unlock()
	if ask == nil {
		t.Fatal("no connection for stores")
	}
	boot := wire.ID{1}
	for _, m := range []struct {
		kind wire.Kind
		v    any
	}{{wire.KindOwn, wire.Own{Action: wire.OwnTake, Boot: boot}}, {wire.KindBatch, wire.Batch{Boot: boot, Epoch: 1, Number: 1, Header: []byte("h"), Entries: []wire.Entry{{Organization: boot, Sealed: []byte("sealed")}, {Organization: boot, Seq: 1, Sealed: []byte("sealed")}}}}, {wire.KindBatch, wire.Batch{}}} {
		p, err := wire.Marshal(m.v)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ask.Ask(t.Context(), m.kind, p); err != nil {
			t.Fatal(err)
		}
	}
	metrics.Round(3, cosign.Quorum, 30*time.Millisecond)
	metrics.Round(3, cosign.Lost, time.Second)
	text = scrape()
	for _, want := range []string{
		`cloister_log_rounds_total{range="3",result="quorum"} 1`, `cloister_log_rounds_total{range="3",result="lost"} 1`,
		`cloister_log_rounds_total{range="3",result="short"} 0`, `cloister_log_rounds_total{range="3",result="failed"} 0`,
		`cloister_log_quorum_seconds_count 1`, `cloister_log_quorum_seconds_sum 0.03`,
		`cloister_batches_total{verdict="stored"} 1`, `cloister_batch_entries_sum 2`, `cloister_batch_bytes_total 12`,
		`cloister_store_seconds_count{question="batch"} 2`, `cloister_store_failures_total{question="batch"} 1`, `cloister_store_seconds_count{question="own"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	// A state that is no name is told of as none; one that nobody knows yet is told.
	for state, want := range map[string]string{"later": `cloister_enclave_state{enclave="",state="later"} 1`, "no name": `cloister_enclave_up{enclave=""} 1`} {
		r.peer.mu.Lock()
		r.status = `{"state":"` + state + `"}`
		r.peer.mu.Unlock()
		c.move(statusKept)
		if text = scrape(); !strings.Contains(text, want+"\n") || !strings.Contains(text, "cloister_enclave_serving{enclave=\"\"} 0\n") || strings.Contains(text, "no name") {
			t.Errorf("state %q", state)
		}
	}
	r.leave(r.listen)
	waitFor(t, func() bool { return r.link.Stats().Connected == 0 })
	c.move(statusKept)
	if text = scrape(); !strings.Contains(text, "cloister_enclave_serving{enclave=\"\"} 0\n") || strings.Contains(text, "alarms_total{") ||
		!strings.Contains(text, "cloister_enclave_up{enclave=\"\"} 0\n") || !strings.Contains(text, `cloister_enclave_state{enclave="",state="away"} 1`) || strings.Contains(text, "boot_number{") {
		t.Error("an enclave that is away still has counters, or a state of its own")
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if text = scrape(); !strings.Contains(text, "cloister_store_up 0\n") || strings.Contains(text, "cloister_outbox_waiting{") {
		t.Error("a store that is away still has an outbox")
	}
}

func TestOpsApart(t *testing.T) {
	r := start(t, nil)
	public := serve(t, r.api, r.api.Public(false))
	ops := serve(t, r.api, r.api.Ops())
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		isError(t, send(t, http.MethodGet, public+path, nil), http.StatusNotFound, 5)
		if got := send(t, http.MethodGet, ops+path, nil); got.status != 200 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	isError(t, post(t, ops+"/public/v1/query/x", "{}"), http.StatusNotFound, 5)
}

func TestManyNamesStayBounded(t *testing.T) {
	r := start(t, nil)
	for i := range 600 {
		post(t, r.at+fmt.Sprint("/public/v1/query/op_", i), "{}")
	}
	text := send(t, http.MethodGet, r.at+"/metrics", nil).body
	if n := strings.Count(text, "cloister_requests_total{"); n != 513 {
		t.Fatalf("%d operations are labels, want 512 and other", n)
	}
	if !strings.Contains(text, `cloister_requests_total{door="query",op="other",status="200"} 88`) {
		t.Fatal("the rest was not counted")
	}
}

// TestDashboard: everything at and below its path is its own, and nothing else.
func TestDashboard(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.Path) })
	r := start(t, func(o *api.Options) { o.Dashboard = pages })
	for _, path := range []string{"/dashboard", "/dashboard/", "/dashboard/a/b.js", "/dashboard//x"} {
		if got := send(t, http.MethodGet, r.at+path, nil); got.status != 200 || got.body != "page "+path {
			t.Errorf("%s: %+v", path, got)
		}
	}
	isError(t, send(t, http.MethodGet, r.at+"/dashboards", nil), http.StatusNotFound, 5)
	if got := send(t, http.MethodGet, r.at+"/", nil); got.status != 200 || got.body != "page /dashboard/" {
		t.Errorf("the root leads to %+v", got)
	}
	isError(t, post(t, r.at+"/", "{}"), http.StatusMethodNotAllowed, 12)
	isError(t, send(t, http.MethodGet, start(t, nil).at+"/", nil), http.StatusNotFound, 5)
	if got := post(t, r.at+"/public/v1/query/whoami", "{}"); got.status != 200 {
		t.Errorf("%+v", got)
	}
	isError(t, send(t, http.MethodGet, start(t, nil).at+"/dashboard/", nil), http.StatusNotFound, 5)
}
