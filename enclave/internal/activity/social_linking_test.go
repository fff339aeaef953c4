package activity_test

import (
	"fmt"
	"testing"

	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// withEmail is a token of i with an address, for a key.
func (i *issuer) withEmail(sub, aud, email string, isVerified any, public string) string {
	return i.signed(fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":%q,"iat":%d,"exp":%d,"nonce":%q,"email":%q,"email_verified":%v}`,
		i.url, sub, aud, i.w.now/1000, i.w.now/1000+300, login.Nonce(public), email, isVerified))
}

// linkingWorld is an organization whose proxy links accounts for the client "web".
func linkingWorld(t *testing.T) (w *world, google *issuer) {
	w = newWorld(t)
	google = newIssuer(w, "https://accounts.google.com")
	w.run("ENABLE_AUTH_PROXY", object{})
	w.run("UPDATE_AUTH_PROXY_CONFIG", object{"socialLinkingClientIds": []any{"web"}})
	return w, google
}

func (w *world) child(name, email string, ps ...object) *world {
	u := with(with(rootUser("R"), "apiKeys", []any{apiKey("k", w.freshKey())}), "oauthProviders", append([]object{}, ps...))
	if email != "" {
		u["userEmail"] = email
	}
	return w.sub(w.run("CREATE_SUB_ORGANIZATION_V7", subOrganization(name, 1, u))["subOrganizationId"])
}

// verifiedAs makes the address of a root user known to be hers, as a passcode does.
func verifiedAs(w *world) {
	before := userOf(w, w.root)
	after := *before
	after.EmailVerified = true
	alter(w, func(tx *org.Tx) { w.must(tx.PutUser(&after)) })
	alter(w.above, func(tx *org.Tx) {
		w.must(tx.LinkUser(&org.Child{ID: w.id, CreatedMs: mustOrganization(w).CreatedMs}, before, &after))
	})
}

// A sign-up with an identity at Google has the same address verified, and so has a
// user who is given one, if the client is one that links accounts.
func TestSocialLinkingVerifies(t *testing.T) {
	w, google := linkingWorld(t)
	other := newIssuer(w, "https://accounts.google.com.evil.example")
	verifiedBy := func(i *issuer, email, tokenEmail string, isVerified any, aud, sub string) bool {
		t.Helper()
		c := w.child("child "+sub, email, byToken(i.withEmail(sub, aud, tokenEmail, isVerified, "")))
		return userOf(c, c.root).EmailVerified
	}
	if !verifiedBy(google, "Ada@example.com", "ada@example.com", true, "web", "1") {
		t.Error("the address of a sign-up is not verified")
	}
	for name, got := range map[string]bool{
		"another issuer":                    verifiedBy(other, "b@example.com", "b@example.com", true, "web", "2"),
		"another client":                    verifiedBy(google, "c@example.com", "c@example.com", true, "ios", "3"),
		"not verified":                      verifiedBy(google, "d@example.com", "d@example.com", false, "web", "4"),
		"verified as text":                  verifiedBy(google, "e@example.com", "e@example.com", `"true"`, "web", "5"),
		"another address":                   verifiedBy(google, "f@example.com", "other@example.com", true, "web", "6"),
		"no address":                        verifiedBy(google, "", "g@example.com", true, "web", "7"),
		"one that is known to be another's": verifiedBy(google, "ada@example.com", "ada@example.com", true, "web", "8"),
	} {
		if got {
			t.Errorf("%s: the address counts as verified", name)
		}
	}
	// A user who is there already.
	c := w.child("later", "late@example.com")
	add := func(p object) {
		c.run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": c.root, "oauthProviders": []any{p}})
	}
	if add(byToken(google.withEmail("late", "ios", "late@example.com", true, ""))); userOf(c, c.root).EmailVerified {
		t.Error("a client that links nothing has verified an address")
	}
	if add(claims(google.url, "late", "web")); userOf(c, c.root).EmailVerified {
		t.Error("claims alone have verified an address")
	}
	if add(byToken(google.withEmail("late too", "web", "late@example.com", true, ""))); !userOf(c, c.root).EmailVerified {
		t.Error("the address of a user who was given an identity is not verified")
	}
	// Users of the organization itself are nobody's accounts.
	w.run("CREATE_USERS_V4", object{"users": []any{with(with(user("U"), "userEmail", "top@example.com"), "oauthProviders", []any{byToken(google.withEmail("top", "web", "top@example.com", true, ""))})}})
	for _, u := range usersOf(w) {
		if u.EmailVerified {
			t.Errorf("%s is verified in the organization itself", u.Email)
		}
	}
}

func usersOf(w *world) (all []*org.User) {
	w.must(w.tx().EachUser(func(u *org.User) bool { all = append(all, u); return true }))
	return all
}

// Who logs in by an identity at Google that nobody has is the user whose verified
// address it is, and has the identity from then on.
func TestSocialLinkingLogsIn(t *testing.T) {
	w, google := linkingWorld(t)
	other := newIssuer(w, "https://issuer.example")
	c := w.child("ada", "ada@example.com")
	public := w.freshP256()
	in := func(token string) object { return object{"oidcToken": token, "publicKey": public} }
	good := func() string { return google.withEmail("ada", "web", "Ada@example.com", true, public) }
	// An address that nobody has verified is nobody's.
	c.refused("OAUTH_LOGIN", in(good()), 5, "no user of the organization")
	verifiedAs(c)
	for name, token := range map[string]string{
		"another issuer":  other.withEmail("ada", "web", "ada@example.com", true, public),
		"another client":  google.withEmail("ada", "ios", "ada@example.com", true, public),
		"not verified":    google.withEmail("ada", "web", "ada@example.com", false, public),
		"another address": google.withEmail("ada", "web", "bob@example.com", true, public),
		"no address":      google.token("ada", "web", boundTo(public)),
		"two audiences": google.signed(fmt.Sprintf(`{"iss":%q,"sub":"ada","aud":["web","ios"],"iat":%d,"exp":%d,"nonce":%q,"email":"ada@example.com","email_verified":true}`,
			google.url, w.now/1000, w.now/1000+300, login.Nonce(public))),
	} {
		c.refused("OAUTH_LOGIN", in(token), 5, "no user of the organization")
		if n := len(userOf(c, c.root).OauthProviders); n != 0 {
			t.Fatalf("%s: %d identities", name, n)
		}
	}
	c.refused("OAUTH_LOGIN", in(google.withEmail("ada", "web", "ada@example.com", true, w.freshP256())), 3, "nonce")
	c.run("OAUTH_LOGIN", in(good()))
	p := userOf(c, c.root).OauthProviders
	if len(p) != 1 || p[0].Issuer != google.url || p[0].Subject != "ada" || p[0].Audience != "web" {
		t.Fatalf("%+v", p)
	}
	// From now on without the address, and for no other client.
	c.run("OAUTH_LOGIN", in(google.token("ada", "web", boundTo(public))))
	c.refused("OAUTH_LOGIN", in(google.withEmail("ada", "ios", "ada@example.com", true, public)), 5, "no user of the organization")
	if n := len(userOf(c, c.root).OauthProviders); n != 1 {
		t.Errorf("%d identities", n)
	}
	// An identity that is somebody's stays his.
	d := w.child("bob", "bob@example.com", byToken(google.token("bob", "web")))
	e := w.child("eve", "eve@example.com")
	verifiedAs(e)
	e.refused("OAUTH_LOGIN", in(google.withEmail("bob", "web", "eve@example.com", true, public)), 5, "no user of the organization")
	d.run("OAUTH_LOGIN", in(google.token("bob", "web", boundTo(public))))
	// Without the setting nothing is linked.
	w.run("UPDATE_AUTH_PROXY_CONFIG", object{"socialLinkingClientIds": []any{}})
	e.refused("OAUTH_LOGIN", in(google.withEmail("eve", "web", "eve@example.com", true, public)), 5, "no user of the organization")
}
