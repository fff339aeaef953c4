package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/core"
	"cloister/sim/authenticator"
	"cloister/sim/client"
	"cloister/sim/rig"
)

type object = map[string]any

func list(xs ...any) []any { return append([]any{}, xs...) }

// A world is a host and an enclave whose first organization has an auth proxy.
type world struct {
	*rig.Rig
	root   *client.User // of the first organization, over HTTP
	t      *testing.T
	proxy  string // base URL
	config string
}

// unlimited switches the proxy's rates off.
var unlimited = core.Rates{Proxy: core.ProxyRates{Off: true}}

func newWorld(t *testing.T, o rig.Options) *world {
	t.Helper()
	o.AuthProxy = true
	w := &world{t: t, Rig: rig.Start(t, o)}
	w.root, w.proxy, w.config = w.Root(), w.ServeProxy(), w.Credentials.AuthProxyConfigID
	w.root.Send = client.HTTP(&http.Client{Transport: typed{}}, w.Serve())
	if w.config == "" {
		t.Fatal("no auth proxy")
	}
	return w
}

// other is the root user of the one further organization, over HTTP too.
func (w *world) other() *client.User {
	w.t.Helper()
	all := w.Others()
	if len(all) != 1 {
		w.t.Fatal(all)
	}
	all[0].Send = w.root.Send
	return all[0]
}

// typed is a way to the public interface, whose replies are all of one type.
type typed struct{}

func (typed) RoundTrip(q *http.Request) (*http.Response, error) {
	r, err := http.DefaultTransport.RoundTrip(q)
	if err == nil && r.Header.Get("Content-Type") != "application/json" {
		_ = r.Body.Close()
		return nil, fmt.Errorf("%s: %d %v", q.URL, r.StatusCode, r.Header)
	}
	return r, err
}

// enabled turns the proxy of an organization on, and returns its configuration's id.
func enabled(root *client.User) string {
	root.Test.Helper()
	root.Do("ENABLE_AUTH_PROXY", object{})
	return client.Text(root.Read("get_organization_configs", nil), "configs", "features", "0", "value")
}

// A reply of the proxy.
type reply struct {
	client.Reply
	head http.Header
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
	return &reply{client.Reply{Status: resp.StatusCode, Body: b}, resp.Header}
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
	m := r.JSON()
	if r.Status != 200 || m == nil {
		w.t.Fatalf("%s: %v", op, r)
	}
	return m
}

// refused wants an error of the wire's shape.
func (w *world) refused(what string, r *reply, status int, says string) {
	w.t.Helper()
	var e struct {
		Code    int
		Message string
		Details []object
	}
	if err := json.Unmarshal(r.Body, &e); err != nil || r.Status != status || !strings.Contains(e.Message, says) || e.Code == 0 || e.Details == nil {
		w.t.Errorf("%s: %v, want %d %q", what, r, status, says)
	}
	if r.head != nil && r.head.Get("Content-Type") != "application/json" {
		w.t.Errorf("%s: %q", what, r.head.Get("Content-Type"))
	}
}

// key is an API key as sign-ups name it.
func key(k client.KeyPair) object { return client.APIKey("Key", k) }

// signup is a sign-up with nothing in it but what is given.
func signup(members object) object {
	s := object{"apiKeys": list(), "authenticators": list(), "oauthProviders": list()}
	maps.Copy(s, members)
	return s
}

var wallet = object{"walletName": "First", "accounts": list(client.Ethereum)}

// public is the answer of the public interface to an activity of whoever has a key of an organization.
func (w *world) public(k client.KeyPair, organization, typ string, params object) *reply {
	w.t.Helper()
	return &reply{w.root.As(organization, "", k).Submit(typ, params), nil}
}

// logIn starts a session by a key where its stamp names, and tells in which organization.
func (w *world) logIn(k client.KeyPair, organization string) string {
	w.t.Helper()
	r := w.public(k, organization, "STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey})
	if r.Status != 200 {
		w.t.Fatalf("a log-in: %v", r)
	}
	return r.Text("activity", "organizationId")
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
