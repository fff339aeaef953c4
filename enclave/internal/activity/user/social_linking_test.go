package user_test

import (
	"fmt"
	"slices"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// withEmail is a token of i with an address, for a key.
func withEmail(i *activitytest.Issuer, sub, aud, email string, isVerified any, public string) string {
	return i.Sign(fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":%q,"iat":%d,"exp":%d,"nonce":%q,"email":%q,"email_verified":%v}`,
		i.URL, sub, aud, i.World.Now/1000, i.World.Now/1000+300, login.Nonce(public), email, isVerified))
}

// linkingWorld is an organization whose proxy links accounts for the client "web".
func linkingWorld(t *testing.T) (w *world, google *activitytest.Issuer) {
	w = activitytest.New(t)
	google = w.NewIssuer("https://accounts.google.com")
	w.Run("ENABLE_AUTH_PROXY", object{})
	w.Run("UPDATE_AUTH_PROXY_CONFIG", object{"socialLinkingClientIds": []any{"web"}})
	return w, google
}

func childOf(w *world, name, email string, ps ...object) *world {
	u := activitytest.With(activitytest.With(activitytest.RootUser("R"), "apiKeys", []any{activitytest.APIKey("k", w.FreshKey())}), "oauthProviders", append([]object{}, ps...))
	if email != "" {
		u["userEmail"] = email
	}
	return w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V7", activitytest.SubOrganization(name, 1, u))["subOrganizationId"])
}

// verifiedAs makes the address of a root user known to be hers, as a passcode does.
func verifiedAs(w *world) {
	before := w.UserOf(w.Root)
	after := *before
	after.EmailVerified = true
	w.Alter(func(tx *org.Tx) { w.Must(tx.PutUser(&after)) })
	w.Parent.Alter(func(tx *org.Tx) {
		w.Must(tx.LinkUser(&org.Child{ID: w.ID, CreatedMs: w.Organization().CreatedMs}, before, &after))
	})
}

// A sign-up with an identity at Google has the same address verified, and so has a
// user who is given one, if the client is one that links accounts.
func TestSocialLinkingVerifies(t *testing.T) {
	w, google := linkingWorld(t)
	other := w.NewIssuer("https://accounts.google.com.evil.example")
	verifiedBy := func(i *activitytest.Issuer, email, tokenEmail string, isVerified any, aud, sub string) bool {
		t.Helper()
		c := childOf(w, "child "+sub, email, activitytest.ByToken(withEmail(i, sub, aud, tokenEmail, isVerified, "")))
		return c.UserOf(c.Root).EmailVerified
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
	c := childOf(w, "later", "late@example.com")
	add := func(p object) {
		c.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": c.Root, "oauthProviders": []any{p}})
	}
	if add(activitytest.ByToken(withEmail(google, "late", "ios", "late@example.com", true, ""))); c.UserOf(c.Root).EmailVerified {
		t.Error("a client that links nothing has verified an address")
	}
	if add(activitytest.Claims(google.URL, "late", "web")); c.UserOf(c.Root).EmailVerified {
		t.Error("claims alone have verified an address")
	}
	if add(activitytest.ByToken(withEmail(google, "taken", "web", "late@example.com", true, w.FreshP256()))); c.UserOf(c.Root).EmailVerified {
		t.Error("a token that was asked for by another key has verified an address")
	}
	if add(activitytest.ByToken(withEmail(google, "late too", "web", "late@example.com", true, c.Credential().PublicKey))); !c.UserOf(c.Root).EmailVerified {
		t.Error("the address of a user who has shown his identity is not verified")
	}
	// Users of the organization itself are nobody's accounts.
	w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.With(activitytest.With(activitytest.User("U"), "userEmail", "top@example.com"), "oauthProviders", []any{activitytest.ByToken(withEmail(google, "top", "web", "top@example.com", true, ""))})}})
	for _, u := range usersOf(w) {
		if u.EmailVerified {
			t.Errorf("%s is verified in the organization itself", u.Email)
		}
	}
}

// TestLinkingFromAbove lets a user of the parent link an identity, if it stands for the address that the user has verified:
// with it he could log in anyway. Any other would be a way in for the parent.
func TestLinkingFromAbove(t *testing.T) {
	w, google := linkingWorld(t)
	other := w.NewIssuer("https://issuer.example")
	c := childOf(w, "ada", "ada@example.com")
	own, by := c.User, w.Credential()
	fromAbove := func() { c.User, c.Stamped = w.User, &by }
	add := func(p object) object { return object{"userId": c.Root, "oauthProviders": []any{p}} }
	token := func(sub string) string { return withEmail(google, sub, "web", "Ada@example.com", true, w.FreshP256()) }
	fromAbove()
	c.Refuse("CREATE_OAUTH_PROVIDERS_V2", add(activitytest.ByToken(token("1"))), 3, "verified address")
	c.User, c.Stamped = own, nil
	verifiedAs(c)
	fromAbove()
	for what, p := range map[string]object{
		"another issuer":       activitytest.ByToken(withEmail(other, "1", "web", "ada@example.com", true, "")),
		"another client":       activitytest.ByToken(withEmail(google, "1", "ios", "ada@example.com", true, "")),
		"another address":      activitytest.ByToken(withEmail(google, "1", "web", "parent@example.com", true, "")),
		"an address unproven":  activitytest.ByToken(withEmail(google, "1", "web", "ada@example.com", false, "")),
		"claims without token": activitytest.Claims(google.URL, "1", "web"),
	} {
		if _, err := c.Try("CREATE_OAUTH_PROVIDERS_V2", add(p)); activitytest.Code(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.Run("CREATE_OAUTH_PROVIDERS_V2", add(activitytest.ByToken(token("1"))))
	if p := c.UserOf(c.Root).OauthProviders; len(p) != 1 || p[0].LinkedBy != nil {
		t.Errorf("%+v", p)
	}
}

// TestAddressOfALinkIsShownLater: what another's token has linked verifies no address; the next log-in by it does.
func TestAddressOfALinkIsShownLater(t *testing.T) {
	w, google := linkingWorld(t)
	c := childOf(w, "ada", "ada@example.com")
	taken, public := w.FreshP256(), w.FreshP256()
	c.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": c.Root, "oauthProviders": []any{activitytest.ByToken(withEmail(google, "ada", "web", "ada@example.com", true, taken))}})
	if c.UserOf(c.Root).EmailVerified {
		t.Error("a token of another's key has verified the address")
	}
	c.Run("OAUTH_LOGIN", object{"oidcToken": withEmail(google, "ada", "web", "ada@example.com", true, public), "publicKey": public})
	u := c.UserOf(c.Root)
	if !u.EmailVerified || !slices.ContainsFunc(u.APIKeys, func(k org.APIKey) bool { return k.PublicKey == public }) {
		t.Errorf("%+v", u)
	}
}

func usersOf(w *world) (all []*org.User) {
	w.Must(w.Tx().EachUser(func(u *org.User) bool { all = append(all, u); return true }))
	return all
}

// Who logs in by an identity at Google that nobody has is the user whose verified
// address it is, and has the identity from then on.
func TestSocialLinkingLogsIn(t *testing.T) {
	w, google := linkingWorld(t)
	other := w.NewIssuer("https://issuer.example")
	c := childOf(w, "ada", "ada@example.com")
	public := w.FreshP256()
	in := func(token string) object { return object{"oidcToken": token, "publicKey": public} }
	good := func() string { return withEmail(google, "ada", "web", "Ada@example.com", true, public) }
	// An address that nobody has verified is nobody's.
	c.Refuse("OAUTH_LOGIN", in(good()), 5, "no user of the organization")
	verifiedAs(c)
	for name, token := range map[string]string{
		"another issuer":  withEmail(other, "ada", "web", "ada@example.com", true, public),
		"another client":  withEmail(google, "ada", "ios", "ada@example.com", true, public),
		"not verified":    withEmail(google, "ada", "web", "ada@example.com", false, public),
		"another address": withEmail(google, "ada", "web", "bob@example.com", true, public),
		"no address":      google.Token("ada", "web", activitytest.BoundTo(public)),
		"two audiences": google.Sign(fmt.Sprintf(`{"iss":%q,"sub":"ada","aud":["web","ios"],"iat":%d,"exp":%d,"nonce":%q,"email":"ada@example.com","email_verified":true}`,
			google.URL, w.Now/1000, w.Now/1000+300, login.Nonce(public))),
	} {
		c.Refuse("OAUTH_LOGIN", in(token), 5, "no user of the organization")
		if n := len(c.UserOf(c.Root).OauthProviders); n != 0 {
			t.Fatalf("%s: %d identities", name, n)
		}
	}
	c.Refuse("OAUTH_LOGIN", in(withEmail(google, "ada", "web", "ada@example.com", true, w.FreshP256())), 3, "nonce")
	c.Run("OAUTH_LOGIN", in(good()))
	p := c.UserOf(c.Root).OauthProviders
	if len(p) != 1 || p[0].Issuer != google.URL || p[0].Subject != "ada" || p[0].Audience != "web" {
		t.Fatalf("%+v", p)
	}
	// From now on without the address, and for no other client.
	c.Run("OAUTH_LOGIN", in(google.Token("ada", "web", activitytest.BoundTo(public))))
	c.Refuse("OAUTH_LOGIN", in(withEmail(google, "ada", "ios", "ada@example.com", true, public)), 5, "no user of the organization")
	if n := len(c.UserOf(c.Root).OauthProviders); n != 1 {
		t.Errorf("%d identities", n)
	}
	// An identity that is somebody's stays his.
	d := childOf(w, "bob", "bob@example.com", activitytest.ByToken(google.Token("bob", "web")))
	e := childOf(w, "eve", "eve@example.com")
	verifiedAs(e)
	e.Refuse("OAUTH_LOGIN", in(withEmail(google, "bob", "web", "eve@example.com", true, public)), 5, "no user of the organization")
	d.Run("OAUTH_LOGIN", in(google.Token("bob", "web", activitytest.BoundTo(public))))
	// Without the setting nothing is linked.
	w.Run("UPDATE_AUTH_PROXY_CONFIG", object{"socialLinkingClientIds": []any{}})
	e.Refuse("OAUTH_LOGIN", in(withEmail(google, "eve", "web", "eve@example.com", true, public)), 5, "no user of the organization")
}
