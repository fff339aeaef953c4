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
	logIn := func(i *provider, sub, audience, email string, isVerified any) answered {
		key := client.NewKey()
		return p.at("oauth_login", object{"oidcToken": token(i, sub, audience, email, isVerified, nonceOf(key.PublicKey)), "publicKey": key.PublicKey})
	}
	signUp := func(sub, email string) string {
		t.Helper()
		got := p.at("signup_v2", object{"userEmail": email, "oauthProviders": []any{object{"providerName": "google", "oidcToken": token(google, sub, "web", email, true, "")}}})
		if got.status != 200 {
			t.Fatalf("%v", got)
		}
		organization, _ := got.m["organizationId"].(string)
		return organization
	}
	// Without the setting an address is only an address.
	signUp("eve", "eve@example.com")
	p.refuses("not set", logIn(google, "eve's other", "web", "eve@example.com", true), 404, "ORGANIZATION_NOT_FOUND")
	p.Root().Do("UPDATE_AUTH_PROXY_CONFIG", object{"socialLinkingClientIds": []any{"web", "ios"}})
	p.refuses("signed up before it was set", logIn(google, "eve's other", "web", "eve@example.com", true), 404, "ORGANIZATION_NOT_FOUND")

	home := signUp("ada", ada)
	for range 50 {
		p.refuses("another issuer", logIn(p.idp, "other", "web", ada, true), 404, "ORGANIZATION_NOT_FOUND")
		p.refuses("another client", logIn(google, "other", "android", ada, true), 404, "ORGANIZATION_NOT_FOUND")
		p.refuses("an address that Google has not verified", logIn(google, "other", "web", ada, false), 404, "ORGANIZATION_NOT_FOUND")
		p.refuses("nearly verified", logIn(google, "other", "web", ada, "true"), 404, "ORGANIZATION_NOT_FOUND")
		p.refuses("another address", logIn(google, "other", "web", "x"+ada, true), 404, "ORGANIZATION_NOT_FOUND")
	}
	// Looked for by the address first, as clients do, and then logged in.
	found := p.at("account", object{"filterType": "EMAIL", "filterValue": "ada@example.com", "oidcToken": token(google, "ada's phone", "ios", ada, true, "")})
	if found.status != 200 || found.m["organizationId"] != home {
		t.Errorf("%v", found)
	}
	for range 2 { // the second time by the identity itself
		got := logIn(google, "ada's phone", "ios", ada, true)
		if got.status != 200 || claimsOf(t, got.m["session"].(string))["organization_id"] != home {
			t.Fatalf("%v", got)
		}
	}
	if got := logIn(google, "ada's phone", "ios", "moved@example.com", true); got.status != 200 {
		t.Errorf("the identity is hers whatever her address: %v", got)
	}
	if got := logIn(google, "ada", "web", ada, true); got.status != 200 || claimsOf(t, got.m["session"].(string))["organization_id"] != home {
		t.Errorf("her first identity: %v", got)
	}
}
