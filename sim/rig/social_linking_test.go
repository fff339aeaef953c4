package rig_test

import (
	"testing"

	"cloister/sim/client"
)

// Accounts at Google and at one address are one account, where the organization's proxy
// names the client: from the sign-up to a log-in by an identity that nobody has had.
func TestProxySocialLinking(t *testing.T) {
	p := newPage(t)
	google := p.w.provider("accounts.google.com")
	const ada = "Ada@example.com"
	token := func(i *provider, sub, audience, email string, isVerified any, nonce string) string {
		return i.token(i.claims(p.c.Now(), sub, audience, "email", email, "email_verified", isVerified, "nonce", nonce))
	}
	logIn := func(i *provider, sub, audience, email string, isVerified any) client.Reply {
		key := client.NewKey()
		return p.proxy("oauth_login", object{"oidcToken": token(i, sub, audience, email, isVerified, nonceOf(key.PublicKey)), "publicKey": key.PublicKey})
	}
	signUp := func(sub, email string) string {
		t.Helper()
		got := p.proxy("signup_v2", object{"userEmail": email, "oauthProviders": []any{object{"providerName": "google", "oidcToken": token(google, sub, "web", email, true, "")}}})
		organization := got.Text("organizationId")
		if got.Status != 200 || organization == none {
			t.Fatalf("%v", got)
		}
		return organization
	}
	// Without the setting an address is only an address.
	signUp("eve", "eve@example.com")
	wants(t, "not set", logIn(google, "eve's other", "web", "eve@example.com", true), 404, "ORGANIZATION_NOT_FOUND")
	p.Root().Do("UPDATE_AUTH_PROXY_CONFIG", object{"socialLinkingClientIds": []any{"web", "ios"}})
	wants(t, "signed up before it was set", logIn(google, "eve's other", "web", "eve@example.com", true), 404, "ORGANIZATION_NOT_FOUND")

	home := signUp("ada", ada)
	for range 50 {
		wants(t, "another issuer", logIn(p.idp, "other", "web", ada, true), 404, "ORGANIZATION_NOT_FOUND")
		wants(t, "another client", logIn(google, "other", "android", ada, true), 404, "ORGANIZATION_NOT_FOUND")
		wants(t, "an address that Google has not verified", logIn(google, "other", "web", ada, false), 404, "ORGANIZATION_NOT_FOUND")
		wants(t, "nearly verified", logIn(google, "other", "web", ada, "true"), 404, "ORGANIZATION_NOT_FOUND")
		wants(t, "another address", logIn(google, "other", "web", "x"+ada, true), 404, "ORGANIZATION_NOT_FOUND")
	}
	// Looked for by the address first, as clients do, and then logged in.
	found := p.proxy("account", object{"filterType": "EMAIL", "filterValue": "ada@example.com", "oidcToken": token(google, "ada's phone", "ios", ada, true, "")})
	if found.Status != 200 || found.Text("organizationId") != home {
		t.Errorf("%v", found)
	}
	for range 2 { // the second time by the identity itself
		got := logIn(google, "ada's phone", "ios", ada, true)
		if got.Status != 200 || claimsOf(t, got.Text("session"))["organization_id"] != home {
			t.Fatalf("%v", got)
		}
	}
	if got := logIn(google, "ada's phone", "ios", "moved@example.com", true); got.Status != 200 {
		t.Errorf("the identity is hers whatever her address: %v", got)
	}
	if got := logIn(google, "ada", "web", ada, true); got.Status != 200 || claimsOf(t, got.Text("session"))["organization_id"] != home {
		t.Errorf("her first identity: %v", got)
	}
}
