package login_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/login"
	"cloister/sim/idp"
)

// The simulator's identity provider, as this package reads it: what can be tried
// there on a laptop goes the way that it goes with others.
func simulated(t *testing.T) (*idp.Provider, *http.Client) {
	t.Helper()
	keys, err := idp.NewKeys()
	must(t, err)
	s := httptest.NewUnstartedServer(nil)
	p, err := idp.New(idp.Config{Issuer: "http://" + s.Listener.Addr().String() + "/idp", Keys: keys, Now: time.Now, Clients: map[string]string{"client:1": "s3cr+t /:=&%é"}})
	must(t, err)
	s.Config.Handler = http.StripPrefix("/idp", p.Handler())
	s.Start()
	t.Cleanup(s.Close)
	return p, &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func fetch(t *testing.T, c *http.Client, in *login.Request) (int, []byte) {
	t.Helper()
	r, err := http.NewRequest(in.Method, in.URL, bytes.NewReader(in.Body))
	must(t, err)
	for _, f := range in.Header {
		r.Header.Set(f.Name, string(f.Value))
	}
	a, err := c.Do(r)
	must(t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	must(t, err)
	return a.StatusCode, b
}

func TestSimulatedOpenID(t *testing.T) {
	p, client := simulated(t)
	const key = "0394e549c71fa99dd5cf752fba623090be314949b74e4cdf7ca72031dd638e281a"
	for _, alg := range idp.Algorithms {
		body, err := json.Marshal(map[string]any{"sub": "s", "aud": "a", "nonce": login.Nonce(key), "email": "e@example.com", "emailVerified": true, "alg": alg})
		must(t, err)
		_, answer := fetch(t, client, &login.Request{Method: "POST", URL: p.Issuer + "/issue", Body: body})
		var issued struct{ IDToken string }
		must(t, json.Unmarshal(answer, &issued))
		token, err := login.ParseIdentityToken("oidcToken", issued.IDToken)
		must(t, err)
		at, err := login.DiscoveryURL("oidcToken", token.Issuer(), true)
		must(t, err)
		_, discovery := fetch(t, client, &login.Request{Method: "GET", URL: at})
		if at, err = login.ParseDiscovery("oidcToken", discovery, token.Issuer(), true); err != nil {
			t.Fatal(err)
		}
		_, raw := fetch(t, client, &login.Request{Method: "GET", URL: at})
		set, err := login.ParseKeySet("oidcToken", raw)
		must(t, err)
		who, err := token.Verify(set, uint64(time.Now().UnixMilli()))
		must(t, err)
		if !who.For("a") || who.For("b") || !who.BoundTo(key) || who.Subject != "s" || who.Email != "e@example.com" || !who.EmailVerified || who.Issuer != p.Issuer {
			t.Errorf("%s: %+v", alg, who)
		}
	}
}

func TestSimulatedOAuth2(t *testing.T) {
	p, client := simulated(t)
	for name, at := range map[string]idp.Endpoint{"X": p.X(), "DISCORD": p.Discord()} {
		provider := provider(t, name)
		prefix := map[string]string{"X": "x:", "DISCORD": "discord:"}[name]
		provider.TokenURL, provider.UserURL = at.Token, at.User
		c := &login.Code{RedirectURI: "http://127.0.0.1:3000/?a=b&c=d", CodeVerifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", Nonce: login.Nonce("02ab")}
		signIn := func() {
			q := url.Values{"client_id": {"client:1"}, "redirect_uri": {c.RedirectURI}, "response_type": {"code"}, "scope": {"users.read"}, "state": {"s"},
				"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}}
			a, err := client.PostForm(at.Authorize+"?"+q.Encode(), url.Values{"email": {"ada@example.com"}})
			must(t, err)
			a.Body.Close()
			to, err := a.Location()
			must(t, err)
			c.AuthCode = to.Query().Get("code")
		}
		signIn()
		wrong, err := provider.Exchange(c, "client:1", mustSecret(t, []byte("another")))
		must(t, err)
		if status, body := fetch(t, client, wrong); status != 401 {
			t.Errorf("%s: a wrong secret: %d %s", name, status, body)
		} else if _, err := provider.AccessToken(status, body); err == nil {
			t.Errorf("%s: a refusal was read as a token", name)
		}
		signIn()
		r, err := provider.Exchange(c, "client:1", mustSecret(t, []byte("s3cr+t /:=&%é")))
		must(t, err)
		status, body := fetch(t, client, r)
		token, err := provider.AccessToken(status, body)
		if err != nil {
			t.Fatalf("%s: %d %s: %v", name, status, body, err)
		}
		status, body = fetch(t, client, provider.WhoAmI(token))
		subject, err := provider.Subject(status, body)
		if err != nil || !strings.HasPrefix(subject, prefix) || len(subject) < len(prefix)+18 {
			t.Errorf("%s: %d %s: %s %v", name, status, body, subject, err)
		}
	}
}
