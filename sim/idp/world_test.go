package idp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"cloister/sim/idp"
	"cloister/sim/loopback"
)

const (
	callback   = "http://localhost:3000/callback"
	registered = "wallet.example:/signed-in"
	verifier   = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of RFC 7636, appendix B
	challenge  = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

var keys = func() *idp.Keys {
	k, err := idp.NewKeys()
	if err != nil {
		panic(err)
	}
	return k
}()

// A world is a provider, its time, and a browser that follows nothing by itself.
type world struct {
	t       *testing.T
	p       *idp.Provider
	now     time.Time
	browser http.Client
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	w.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s := httptest.NewUnstartedServer(nil)
	p, err := idp.New(idp.Config{Issuer: "http://" + s.Listener.Addr().String() + "/idp", Keys: keys, Now: func() time.Time { return w.now },
		RedirectURIs: []string{registered}, Clients: map[string]string{"known": "its secret"}})
	if err != nil {
		t.Fatal(err)
	}
	w.p = p
	s.Config.Handler = loopback.Guard(s.Listener.Addr(), http.StripPrefix("/idp", p.Handler()))
	s.Start()
	t.Cleanup(s.Close)
	return w
}

func (w *world) send(r *http.Request) (*http.Response, string) {
	w.t.Helper()
	a, err := w.browser.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return a, string(b)
}

func (w *world) request(method, url, body string, head ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	return r
}

// values are the pairs over those of usual; an empty value takes one out.
func values(usual url.Values, pairs ...string) url.Values {
	v := url.Values{}
	for name := range usual {
		v.Set(name, usual.Get(name))
	}
	for i := 0; i < len(pairs); i += 2 {
		if v.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			v.Del(pairs[i])
		}
	}
	return v
}

var (
	codeFlow = url.Values{"client_id": {"app"}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {"openid email profile"},
		"state": {"a state & more"}, "nonce": {"a nonce"}, "code_challenge": {challenge}, "code_challenge_method": {"S256"}}
	implicit = url.Values{"client_id": {"app"}, "redirect_uri": {callback}, "response_type": {"id_token"}, "scope": {"openid email profile"},
		"state": {"provider=google&flow=popup"}, "nonce": {"1663bba492a3"}}
	ada = url.Values{"email": {"ada@example.com"}, "name": {"Ada Lovelace"}, "verified": {"on"}}
)

// signIn goes through the page, and answers where the browser is sent.
func (w *world) signIn(at string, q, who url.Values) *url.URL {
	w.t.Helper()
	a, b := w.send(w.request("GET", at+"?"+q.Encode(), ""))
	if a.StatusCode != 200 {
		w.t.Fatalf("the page: %d %s %s", a.StatusCode, a.Header.Get("Location"), b)
	}
	a, b = w.send(w.request("POST", at+"?"+q.Encode(), who.Encode(), "Content-Type", "application/x-www-form-urlencoded"))
	to, err := a.Location()
	if a.StatusCode != 303 || err != nil {
		w.t.Fatalf("signing in: %d %s %v", a.StatusCode, b, err)
	}
	return to
}

// token asks a token endpoint.
func (w *world) token(at string, v url.Values, head ...string) (int, map[string]any) {
	w.t.Helper()
	a, b := w.send(w.request("POST", at, v.Encode(), append(head, "Content-Type", "application/x-www-form-urlencoded")...))
	var out map[string]any
	if err := json.Unmarshal([]byte(b), &out); err != nil {
		w.t.Fatalf("%d %s", a.StatusCode, b)
	}
	return a.StatusCode, out
}

func exchange(code string, pairs ...string) url.Values {
	return values(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "client_id": {"app"}, "code_verifier": {verifier}}, pairs...)
}

// verified are the claims of an identity token, held against the published keys.
func (w *world) verified(token, alg string) map[string]any {
	w.t.Helper()
	_, b := w.send(w.request("GET", w.p.Issuer+"/jwks", ""))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(b), &set); err != nil {
		w.t.Fatal(err)
	}
	for _, k := range set.Keys {
		if !k.IsPublic() {
			w.t.Fatal("a private key is published")
		}
	}
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)})
	if err != nil {
		w.t.Fatal(err)
	}
	var out map[string]any
	if err := t.Claims(&set, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}
