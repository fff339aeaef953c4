package rig_test

import (
	"encoding/json"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/rig"
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
	f := &family{rateClient: rateClient{t, rig.Start(t, o)}, w: w, c: c}
	f.id, f.root, f.idp = f.Credentials.OrganizationID, f.Credentials.RootAPIKey, w.provider("accounts.example")
	return &page{f, f.Credentials.AuthProxyConfigID}
}

// at calls an endpoint of the proxy.
func (p *page) at(op string, body map[string]any) answered {
	p.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.call(wire.EndpointProxy, op, b, wire.Header{Name: "X-Auth-Proxy-Config-Id", Value: p.config})
}

func (p *page) signsUp(token string) string {
	p.t.Helper()
	got := p.at("signup_v2", map[string]any{"oauthProviders": []any{map[string]any{"providerName": "idp", "oidcToken": token}}})
	if got.status != 200 {
		p.t.Fatalf("%v", got)
	}
	return rig.Text(got.m, "organizationId")
}

// Sign-up, look-up and log-in by a provider's token with nothing but the proxy.
func TestProxyOAuth(t *testing.T) {
	p := newPage(t)
	now := p.c.Now()
	token := p.idp.token(p.idp.claims(now, "me", "web"))
	if got := p.at("account", map[string]any{"filterType": "OIDC_TOKEN", "filterValue": token}); got.status != 200 || len(got.m) != 0 {
		t.Errorf("%v", got)
	}
	sub := p.signsUp(token)
	if got := p.at("account", map[string]any{"filterType": "OIDC_TOKEN", "filterValue": token}); rig.Text(got.m, "organizationId") != sub {
		t.Errorf("%v", got)
	}
	p.refuses("an identity that is held", p.at("signup", map[string]any{"oauthProviders": []any{map[string]any{"providerName": "idp", "oidcToken": token}}}), 400, "OAUTH_PROVIDER_ALREADY_EXISTS")
	for _, named := range []any{nil, sub} {
		key := newKey(t)
		got := p.at("oauth_login", map[string]any{"oidcToken": p.bound("me", key), "publicKey": key.PublicKey, "organizationId": named})
		claims := claimsOf(t, rig.Text(got.m, "session"))
		if got.status != 200 || len(got.m) != 1 || claims["organization_id"] != sub || claims["public_key"] != key.PublicKey {
			t.Errorf("%v", got)
		}
		if exp, _ := claims["exp"].(float64); time.Unix(int64(exp), 0).Sub(now) > 16*time.Minute { // the configuration's
			t.Errorf("ends %v", claims["exp"])
		}
		if who := p.ask(key, sub, "whoami"); who.status != 200 {
			t.Errorf("%v", who)
		}
	}
	p.done(p.root, p.id, "UPDATE_AUTH_PROXY_CONFIG", map[string]any{"sessionExpirationSeconds": 60})
	key := newKey(t)
	got := p.at("oauth_login", map[string]any{"oidcToken": p.bound("me", key), "publicKey": key.PublicKey})
	if exp, _ := claimsOf(t, rig.Text(got.m, "session"))["exp"].(float64); int64(exp)-p.c.Now().Unix() > 61 {
		t.Errorf("ends %v", exp)
	}
	p.later(2 * time.Minute)
	p.refuses("a session past its time", p.ask(key, sub, "whoami"), 401, "API_KEY_EXPIRED")
}

func TestProxyOAuthThatIsRefused(t *testing.T) {
	p := newPage(t)
	sub := p.signsUp(p.idp.token(p.idp.claims(p.c.Now(), "me", "web")))
	other := p.signUp("elsewhere", p.idp.token(p.idp.claims(p.c.Now(), "other", "web")))
	key := newKey(t)
	logIn := func(token, named string) answered {
		body := map[string]any{"oidcToken": token, "publicKey": key.PublicKey}
		if named != "" {
			body["organizationId"] = named
		}
		return p.at("oauth_login", body)
	}
	forger := p.w.provider("forger.example")
	forged := func(subject string) string {
		return forger.signed(`{"alg":"RS256","kid":"r1"}`, p.idp.claims(p.c.Now(), subject, "web", "nonce", nonceOf(key.PublicKey)))
	}
	// Who is not known, and who is not himself, hear the same whoever has an account.
	present, absent := logIn(forged("me"), ""), logIn(forged("nobody"), "")
	p.refuses("forged", present, 400, "INVALID_OIDC_TOKEN", "does not verify")
	if present.String() != absent.String() {
		t.Errorf("%v\n%v", present, absent)
	}
	a, b := p.at("account", map[string]any{"filterType": "OIDC_TOKEN", "filterValue": forged("me")}), p.at("account", map[string]any{"filterType": "OIDC_TOKEN", "filterValue": forged("nobody")})
	if a.String() != b.String() || a.status != 400 {
		t.Errorf("%v\n%v", a, b)
	}
	p.refuses("nobody", logIn(p.bound("nobody", key), ""), 404, "ORGANIZATION_NOT_FOUND")
	p.refuses("for another key", logIn(p.bound("me", newKey(t)), ""), 400, "INVALID_OIDC_TOKEN")
	p.refuses("another audience", logIn(p.bound("me", key, "aud", "other"), ""), 404, "ORGANIZATION_NOT_FOUND")
	p.refuses("another's organization", logIn(p.bound("me", key), other), 404, none)
	p.refuses("the proxy's own organization", logIn(p.bound("me", key), p.id), 404, "ORGANIZATION_NOT_FOUND")
	for _, id := range []string{"6ba7b810-9dad-41d1-80b4-00c04fd430c8", "00000000-0000-0000-0000-000000000000"} {
		p.refuses("of nobody", logIn(p.bound("me", key), id), 404, "ORGANIZATION_NOT_FOUND", "no organization found with the given ID: "+id)
	}
	p.refuses("no token", logIn("x", ""), 400, "INVALID_OIDC_TOKEN", "not a signed token")
	if got := logIn(p.bound("me", key), sub); got.status != 200 {
		t.Errorf("%v", got)
	}
	// Where no provider is allowed nobody is asked.
	p.done(p.root, p.id, "UPDATE_AUTH_PROXY_CONFIG", map[string]any{"allowedAuthMethods": []any{"email"}})
	dials := p.w.dials.Load()
	away := p.idpAt("https://unheard-of.example").token(p.idp.claims(p.c.Now(), "me", "web", "iss", "https://unheard-of.example"))
	p.refuses("a log-in", logIn(away, ""), 403, none, "OAUTH disallowed")
	p.refuses("a look-up", p.at("account", map[string]any{"filterType": "OIDC_TOKEN", "filterValue": away}), 403, none, "OAUTH disallowed")
	p.refuses("a sign-up", p.at("signup", map[string]any{"oauthProviders": []any{map[string]any{"providerName": "idp", "oidcToken": away}}}), 403, none, "OAUTH disallowed")
	p.refuses("a code", p.at("oauth2_authenticate", map[string]any{"provider": "OAUTH2_PROVIDER_X", "authCode": "a", "redirectUri": "r", "codeVerifier": "c", "nonce": "n", "clientId": "client"}), 403, none, "OAUTH disallowed")
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
	ask := func(provider, client, code, nonce string) answered {
		return p.at("oauth2_authenticate", map[string]any{"provider": provider, "authCode": code, "redirectUri": "https://app.example/back", "codeVerifier": verifier, "nonce": nonce, "clientId": client})
	}
	key := newKey(t)
	o.issue("one")
	p.refuses("another provider", ask("OAUTH2_PROVIDER_X", "client", "one", "n"), 400, none, "no OAuth 2.0 credential")
	p.refuses("another client", ask("OAUTH2_PROVIDER_DISCORD", "else", "one", "n"), 400, none, "no OAuth 2.0 credential")
	if asked, _ := o.counts(); asked != 0 {
		t.Error("the provider was asked")
	}
	got := ask("OAUTH2_PROVIDER_DISCORD", "client", "one", nonceOf(key.PublicKey))
	token := rig.Text(got.m, "oidcToken")
	if got.status != 200 || len(got.m) != 1 || claimsOf(t, token)["sub"] != "discord:456" {
		t.Fatalf("%v", got)
	}
	if again := ask("OAUTH2_PROVIDER_DISCORD", "client", "one", nonceOf(key.PublicKey)); again.status == 200 {
		t.Errorf("the code a second time: %v", again)
	}
	sub := p.signsUp(token)
	if got := p.at("oauth_login", map[string]any{"oidc_token": token, "public_key": key.PublicKey}); got.status != 200 || claimsOf(t, rig.Text(got.m, "session"))["organization_id"] != sub {
		t.Errorf("%v", got)
	}
}
