package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/host/api"
	"cloister/sim/authenticator"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

type object = map[string]any

func list(xs ...any) []any { return append([]any{}, xs...) }

// A world is a host and an enclave whose first organization has an auth proxy.
type world struct {
	*rig.Rig
	t          *testing.T
	proxy, api string // base URLs
	dir        string
	config     string
}

// unlimited switches the proxy's rates off.
var unlimited = core.Rates{Proxy: core.ProxyRates{Off: true}}

func newWorld(t *testing.T, o rig.Options) *world {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.AuthProxy = true
	w := &world{t: t, dir: o.Dir, Rig: rig.Start(t, o)}
	a := api.New(api.Options{Enclave: w.Link, Ping: func(context.Context) error { return nil }, Metrics: api.NewMetrics(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Boot: "test", Wait: 30 * time.Second})
	proxy, public := httptest.NewServer(a.Proxy()), httptest.NewServer(a.Public(true))
	t.Cleanup(proxy.Close)
	t.Cleanup(public.Close)
	w.proxy, w.api, w.config = proxy.URL, public.URL, w.Credentials.AuthProxyConfigID
	if w.config == "" {
		t.Fatal("no auth proxy")
	}
	return w
}

// others are the further organizations.
func (w *world) others() []laptop.Organization {
	b, err := os.ReadFile(filepath.Join(w.dir, "organizations.json"))
	var all []laptop.Organization
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// A reply of the proxy.
type reply struct {
	status int
	head   http.Header
	body   string
}

func (r *reply) parse(t *testing.T) object {
	t.Helper()
	var m object
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return m
}

// post sends a body with headers, given in pairs.
func (w *world) post(op, body string, headers ...string) *reply {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.proxy+"/v1/"+op, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return w.do(req)
}

func (w *world) do(req *http.Request) *reply {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return &reply{resp.StatusCode, resp.Header, string(b)}
}

const configHeader = "X-Auth-Proxy-Config-ID" // as clients write it

// ask sends a request of the world's own configuration.
func (w *world) ask(op string, body any) *reply {
	w.t.Helper()
	return w.post(op, text(body), configHeader, w.config)
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// ok asks and wants success.
func (w *world) ok(op string, body any) object {
	w.t.Helper()
	r := w.ask(op, body)
	if r.status != 200 {
		w.t.Fatalf("%s: %d %s", op, r.status, r.body)
	}
	return r.parse(w.t)
}

// refused wants an error of the wire's shape.
func (w *world) refused(what string, r *reply, status int, says string) {
	w.t.Helper()
	var e struct {
		Code    int
		Message string
		Details []object
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.status != status || !strings.Contains(e.Message, says) || e.Code == 0 || e.Details == nil {
		w.t.Errorf("%s: %d %s, want %d %q", what, r.status, r.body, status, says)
	}
	if r.head.Get("Content-Type") != "application/json" {
		w.t.Errorf("%s: %q", what, r.head.Get("Content-Type"))
	}
}

// update changes the configuration, stamped by the root user.
func (w *world) update(params object) {
	w.t.Helper()
	w.submit("update_auth_proxy_config", "ACTIVITY_TYPE_UPDATE_AUTH_PROXY_CONFIG", params)
}

// submit is an activity of the root user that must be completed.
func (w *world) submit(op, typ string, params object) object {
	w.t.Helper()
	status, m := w.Submit(op, typ, params)
	if status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		w.t.Fatalf("%s: %d %v", op, status, m)
	}
	return rig.Get(m, "activity", "result").(object)
}

// key is an API key as sign-ups name it.
func key(k laptop.KeyPair) object {
	return object{"apiKeyName": "Key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}
}

func (w *world) newKey() laptop.KeyPair {
	w.t.Helper()
	k, err := laptop.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// signup is a sign-up with nothing in it but what is given.
func signup(members object) object {
	s := object{"apiKeys": list(), "authenticators": list(), "oauthProviders": list()}
	maps.Copy(s, members)
	return s
}

var wallet = object{"walletName": "First", "accounts": list(object{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"})}

// stampedBy sends a body to the public interface.
func (w *world) stampedBy(k laptop.KeyPair, endpoint, op string, body any) *reply {
	w.t.Helper()
	b := []byte(text(body))
	head, err := laptop.Stamp(k, b)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.public(endpoint, op, b, head[0].Name, head[0].Value)
}

// logIn starts a session by a key where its stamp names, and tells in which organization.
func (w *world) logIn(k laptop.KeyPair, organization string) string {
	w.t.Helper()
	r := w.stampedBy(k, "submit", "stamp_login", string(w.BodyOf(organization, "ACTIVITY_TYPE_STAMP_LOGIN", object{"publicKey": w.newKey().PublicKey})))
	if r.status != 200 {
		w.t.Fatalf("a log-in: %d %s", r.status, r.body)
	}
	return rig.Text(r.parse(w.t), "activity", "organizationId")
}

func (w *world) public(endpoint, op string, body []byte, name, value string) *reply {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.api+"/public/v1/"+endpoint+"/"+op, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set(name, value)
	return w.do(req)
}

// passkey is an authenticator and what a sign-up says of it.
func (w *world) passkey() (*authenticator.Authenticator, object) {
	w.t.Helper()
	a, err := authenticator.New(authenticator.ES256, "example.com", "https://example.com")
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := a.Register([]byte("a challenge of some length"), authenticator.None)
	if err != nil {
		w.t.Fatal(err)
	}
	return a, r.Params("Passkey")
}

// snake writes the names of a JSON text's members in snake_case.
func snake(v any) any {
	switch x := v.(type) {
	case object:
		m := object{}
		for name, inner := range x {
			var b strings.Builder
			for _, c := range name {
				if c >= 'A' && c <= 'Z' {
					b.WriteByte('_')
					c += 'a' - 'A'
				}
				b.WriteRune(c)
			}
			m[b.String()] = snake(inner)
		}
		return m
	case []any:
		l := slices.Clone(x)
		for i := range l {
			l[i] = snake(l[i])
		}
		return l
	}
	return v
}
