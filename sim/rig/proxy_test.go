package rig_test

import (
	"encoding/json"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
)

// page is a web page that knows the configuration of the family's auth proxy.
type page struct {
	*family
	config string
}

func newPage(t *testing.T) *page {
	w, c := newWorldOutside(t), clocktest.New()
	o := w.options()
	o.Clock, o.AuthProxy, o.Rates, o.Organizations = c, true, core.Rates{Proxy: core.ProxyRates{Off: true}}, 1
	f := familyIn(w, c, o)
	return &page{f, f.Credentials.AuthProxyConfigID}
}

// proxy calls an endpoint of the proxy.
func (p *page) proxy(op string, body client.Object) client.Reply {
	p.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	got := with(p.Root(), wire.Header{Name: "X-Auth-Proxy-Config-Id", Value: p.config}).Post(wire.EndpointProxy, op, b)
	if got.JSON() == nil {
		p.t.Fatal(got)
	}
	return got
}

// account looks for whose token it is.
func (p *page) account(token string) client.Reply {
	p.t.Helper()
	return p.proxy("account", client.Object{"filterType": "OIDC_TOKEN", "filterValue": token})
}

func (p *page) signup(op, token string) client.Reply {
	p.t.Helper()
	return p.proxy(op, client.Object{"oauthProviders": []any{client.Object{"providerName": "idp", "oidcToken": token}}})
}

func (p *page) signsUp(token string) string {
	p.t.Helper()
	got := p.signup("signup_v2", token)
	if got.Status != 200 {
		p.t.Fatal(got)
	}
	return got.Text("organizationId")
}

// Sign-up, look-up and log-in by a provider's token with nothing but the proxy.
func TestProxyOAuth(t *testing.T) {
	p := newPage(t)
	now := p.c.Now()
	token := p.idp.token(p.idp.claims(now, "me", "web"))
	if got := p.account(token); got.Status != 200 || len(got.JSON()) != 0 {
		t.Error(got)
	}
	sub := p.signsUp(token)
	if got := p.account(token); got.Text("organizationId") != sub {
		t.Error(got)
	}
	wants(t, "an identity that is held", p.signup("signup", token), 400, "OAUTH_PROVIDER_ALREADY_EXISTS")
	for _, named := range []any{nil, sub} {
		key := client.NewKey()
		got := p.proxy("oauth_login", client.Object{"oidcToken": p.bound("me", key), "publicKey": key.PublicKey, "organizationId": named})
		claims := claimsOf(t, got.Text("session"))
		if got.Status != 200 || len(got.JSON()) != 1 || claims["organization_id"] != sub || claims["public_key"] != key.PublicKey {
			t.Error(got)
		}
		if exp, _ := claims["exp"].(float64); time.Unix(int64(exp), 0).Sub(now) > 16*time.Minute { // the configuration's
			t.Errorf("ends %v", claims["exp"])
		}
		if who := p.Root().As(sub, "", key).Query("whoami", nil); who.Status != 200 {
			t.Error(who)
		}
	}
	p.Root().Do("UPDATE_AUTH_PROXY_CONFIG", client.Object{"sessionExpirationSeconds": 60})
	key := client.NewKey()
	got := p.proxy("oauth_login", client.Object{"oidcToken": p.bound("me", key), "publicKey": key.PublicKey})
	if exp, _ := claimsOf(t, got.Text("session"))["exp"].(float64); int64(exp)-p.c.Now().Unix() > 61 {
		t.Errorf("ends %v", exp)
	}
	p.later(2 * time.Minute)
	wants(t, "a session past its time", p.Root().As(sub, "", key).Query("whoami", nil), 401, "API_KEY_EXPIRED")
}

func TestProxyOAuthThatIsRefused(t *testing.T) {
	p := newPage(t)
	sub := p.signsUp(p.idp.token(p.idp.claims(p.c.Now(), "me", "web")))
	other := p.signUp("elsewhere", p.idp.token(p.idp.claims(p.c.Now(), "other", "web")))
	key := client.NewKey()
	logIn := func(token, named string) client.Reply {
		body := client.Object{"oidcToken": token, "publicKey": key.PublicKey}
		if named != "" {
			body["organizationId"] = named
		}
		return p.proxy("oauth_login", body)
	}
	forger := p.w.provider("forger.example")
	forged := func(subject string) string {
		return forger.signed(`{"alg":"RS256","kid":"r1"}`, p.idp.claims(p.c.Now(), subject, "web", "nonce", nonceOf(key.PublicKey)))
	}
	// Who is not known, and who is not himself, hear the same whoever has an account.
	present, absent := logIn(forged("me"), ""), logIn(forged("nobody"), "")
	wants(t, "forged", present, 400, "INVALID_OIDC_TOKEN", "does not verify")
	if present.String() != absent.String() {
		t.Errorf("%v\n%v", present, absent)
	}
	a, b := p.account(forged("me")), p.account(forged("nobody"))
	if a.String() != b.String() || a.Status != 400 {
		t.Errorf("%v\n%v", a, b)
	}
	wants(t, "nobody", logIn(p.bound("nobody", key), ""), 404, "ORGANIZATION_NOT_FOUND")
	wants(t, "for another key", logIn(p.bound("me", client.NewKey()), ""), 400, "INVALID_OIDC_TOKEN")
	wants(t, "another audience", logIn(p.bound("me", key, "aud", "other"), ""), 404, "ORGANIZATION_NOT_FOUND")
	wants(t, "another's organization", logIn(p.bound("me", key), other), 404, none)
	wants(t, "the proxy's own organization", logIn(p.bound("me", key), p.id), 404, "ORGANIZATION_NOT_FOUND")
	for _, id := range []string{"6ba7b810-9dad-41d1-80b4-00c04fd430c8", "00000000-0000-0000-0000-000000000000"} {
		wants(t, "of nobody", logIn(p.bound("me", key), id), 404, "ORGANIZATION_NOT_FOUND", "no organization found with the given ID: "+id)
	}
	wants(t, "no token", logIn("x", ""), 400, "INVALID_OIDC_TOKEN", "not a signed token")
	if got := logIn(p.bound("me", key), sub); got.Status != 200 {
		t.Error(got)
	}
	// Where no provider is allowed nobody is asked.
	p.Root().Do("UPDATE_AUTH_PROXY_CONFIG", client.Object{"allowedAuthMethods": []any{"email"}})
	dials := p.w.dials.Load()
	away := p.idpAt("https://unheard-of.example").token(p.idp.claims(p.c.Now(), "me", "web", "iss", "https://unheard-of.example"))
	wants(t, "a log-in", logIn(away, ""), 403, none, "OAUTH disallowed")
	wants(t, "a look-up", p.account(away), 403, none, "OAUTH disallowed")
	wants(t, "a sign-up", p.signup("signup", away), 403, none, "OAUTH disallowed")
	wants(t, "a code", p.proxy("oauth2_authenticate", client.Object{"provider": "OAUTH2_PROVIDER_X", "authCode": "a", "redirectUri": "r", "codeVerifier": "c", "nonce": "n", "clientId": "client"}), 403, none, "OAUTH disallowed")
	if p.w.dials.Load() != dials {
		t.Error("somebody was asked")
	}
}

// A code of a provider without identity tokens becomes one of ours, and that a
// session.
func TestProxyOAuth2(t *testing.T) {
	p := newPage(t)
	o := newOAuth2(p.family)
	p.credential("OAUTH2_PROVIDER_DISCORD")
	ask := func(provider, id, code, nonce string) client.Reply {
		return p.proxy("oauth2_authenticate", client.Object{"provider": provider, "authCode": code, "redirectUri": "https://app.example/back", "codeVerifier": verifier, "nonce": nonce, "clientId": id})
	}
	key := client.NewKey()
	o.issue("one")
	wants(t, "another provider", ask("OAUTH2_PROVIDER_X", "client", "one", "n"), 400, none, "no OAuth 2.0 credential")
	wants(t, "another client", ask("OAUTH2_PROVIDER_DISCORD", "else", "one", "n"), 400, none, "no OAuth 2.0 credential")
	if asked, _ := o.counts(); asked != 0 {
		t.Error("the provider was asked")
	}
	got := ask("OAUTH2_PROVIDER_DISCORD", "client", "one", nonceOf(key.PublicKey))
	token := got.Text("oidcToken")
	if got.Status != 200 || len(got.JSON()) != 1 || claimsOf(t, token)["sub"] != "discord:456" {
		t.Fatal(got)
	}
	if again := ask("OAUTH2_PROVIDER_DISCORD", "client", "one", nonceOf(key.PublicKey)); again.Status == 200 {
		t.Errorf("the code a second time: %v", again)
	}
	sub := p.signsUp(token)
	if got := p.proxy("oauth_login", client.Object{"oidc_token": token, "public_key": key.PublicKey}); got.Status != 200 || claimsOf(t, got.Text("session"))["organization_id"] != sub {
		t.Error(got)
	}
}
