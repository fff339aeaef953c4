package user_test

import (
	"encoding/hex"
	"slices"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// proxied makes the auth proxy ask for what is run next; it returns how to stop that.
func proxied(w *world) func() {
	p, err := w.Tx().OnlyAuthProxy()
	w.Must(err)
	u, err := w.Tx().User(p.User)
	w.Must(err)
	c := activity.APIKeyCredential(&u.APIKeys[0])
	was := w.Stamped
	w.Stamped = &c
	return func() { w.Stamped = was }
}

// signsUp is a sub-organization that the proxy makes with these members of its root user.
func signsUp(w *world, members object) *world {
	defer proxied(w)()
	return w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", signUpOf(members))["subOrganizationId"])
}

func signUpOf(members object) object {
	u := activitytest.RootUser("Newcomer")
	for k, v := range members {
		u[k] = v
	}
	return activitytest.SubOrganization("Sub", 1, u)
}

// TestLinkedIdentities adds an identity by a token that somebody else's key has asked for: whoever took it from him, or an
// honest client that makes a key for nothing else. It leads, but not the attempt to log in that the token is of, and it
// stands in nobody's way who shows the identity himself.
func TestLinkedIdentities(t *testing.T) {
	w := activitytest.New(t)
	issuer := w.NewIssuer("https://issuer.example")
	w.Run("ENABLE_AUTH_PROXY", object{})
	text := org.IdentityText(issuer.URL, "victim", "web")
	leads := func(token string) []org.ID {
		t.Helper()
		u, err := login.ParseIdentityToken("token", token)
		w.Must(err)
		attempt, err := u.Attempt(w.Now)
		w.Must(err)
		ids, err := w.Tx().ChildrenByIdentity(text, attempt)
		w.Must(err)
		return ids
	}
	token := func(public string) string { return issuer.Token("victim", "web", activitytest.BoundTo(public)) }
	add := func(c *world, token string) object {
		return object{"userId": c.Root, "oauthProviders": []any{activitytest.ByToken(token)}}
	}
	logIn := func(token, public string) object { return object{"oidcToken": token, "publicKey": public} }

	thief, other := childOf(w, "thief", ""), childOf(w, "other", "")
	k, next := w.FreshP256(), w.FreshP256()
	taken := token(k)
	thief.Run("CREATE_OAUTH_PROVIDERS_V2", add(thief, taken))
	if by := thief.UserOf(thief.Root).OauthProviders[0].LinkedBy; by == nil {
		t.Fatal("the record does not tell that the token was another's")
	}
	if ids := leads(taken); len(ids) > 0 {
		t.Errorf("the attempt from which the token was taken leads to %v", ids)
	}
	thief.Refuse("OAUTH_LOGIN", logIn(taken, k), 5, "no user of the organization")
	if ids := leads(token(next)); !slices.Equal(ids, []org.ID{thief.ID}) {
		t.Errorf("the next attempt leads to %v", ids)
	}
	other.Refuse("CREATE_OAUTH_PROVIDERS_V2", add(other, token(next)), 3, "already exists")
	// Claims without a token are as the identity that they extend.
	thief.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": thief.Root, "oauthProviders": []any{activitytest.Claims(issuer.URL, "victim", "ios")}})
	if ids, err := w.Tx().ChildrenBy(org.ChildIdentity, org.IdentityText(issuer.URL, "victim", "ios"), nil, 1); len(ids) > 0 || err != nil {
		t.Errorf("claims that extend a link are shown: %v, %v", ids, err)
	}

	// His own sign-up goes on with the same attempt, and is found from then on. Not with another: that would be a second account.
	stop := proxied(w)
	w.Refuse("CREATE_SUB_ORGANIZATION_V8", signUpOf(object{"oauthProviders": []any{activitytest.ByToken(token(next))}}), 3, "already exists")
	stop()
	own := signsUp(w, object{"oauthProviders": []any{activitytest.ByToken(taken)}})
	for _, shown := range []string{taken, token(next)} {
		if ids := leads(shown); !slices.Equal(ids, []org.ID{own.ID}) {
			t.Errorf("after his sign-up he is led to %v, not to %s", ids, own.ID)
		}
	}
	own.Run("OAUTH_LOGIN", logIn(taken, k))

	// Shown by the key that the token is bound to, an identity is the user's.
	honest := childOf(w, "honest", "")
	stamping := honest.Credential().PublicKey
	honest.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": honest.Root, "oauthProviders": []any{activitytest.ByToken(issuer.Token("honest", "web", activitytest.BoundTo(stamping)))}})
	if by := honest.UserOf(honest.Root).OauthProviders[0].LinkedBy; by != nil {
		t.Error("an identity that its own key has shown counts as linked")
	}
	// So is one that the parent brings, or that is the only way in.
	vouched := childOf(w, "vouched", "", activitytest.ByToken(issuer.Token("vouched", "web", activitytest.BoundTo(w.FreshP256()))))
	alone := signsUp(w, object{"oauthProviders": []any{activitytest.ByToken(issuer.Token("alone", "web", activitytest.BoundTo(w.FreshP256())))}})
	beside := signsUp(w, object{"oauthProviders": []any{activitytest.ByToken(issuer.Token("beside", "web", activitytest.BoundTo(w.FreshP256())))}, "apiKeys": []any{activitytest.APIKey("k", w.FreshKey())}})
	// Two tokens in one sign-up may be of two people, who could both log in.
	two := signsUp(w, object{"oauthProviders": []any{activitytest.ByToken(issuer.Token("one", "web", activitytest.BoundTo(w.FreshP256()))),
		activitytest.With(activitytest.ByToken(issuer.Token("other", "web", activitytest.BoundTo(w.FreshP256()))), "providerName", "q")}})
	extended := signsUp(w, object{"oauthProviders": []any{activitytest.ByToken(issuer.Token("extended", "web", activitytest.BoundTo(w.FreshP256()))), activitytest.Claims(issuer.URL, "extended", "ios")}})
	for c, linked := range map[*world]bool{vouched: false, alone: false, beside: true, two: true, extended: false} {
		if by := c.UserOf(c.Root).OauthProviders[0].LinkedBy; (by != nil) != linked {
			t.Errorf("%s: linked %v", c.Organization().Name, by)
		}
	}
}

// TestHowCredentialsCome runs every activity that gives a credential, an identity or a contact, and holds what is recorded
// against the table of enclave/CREDENTIALS.md.
func TestHowCredentialsCome(t *testing.T) {
	w := activitytest.New(t)
	w.Run("ENABLE_AUTH_PROXY", object{})
	type came struct{ keys, passkeys, email, phone org.How }
	of := func(u *org.User) (c came) {
		if n := len(u.APIKeys); n > 0 {
			c.keys = u.APIKeys[n-1].How
		}
		if n := len(u.Authenticators); n > 0 {
			c.passkeys = u.Authenticators[n-1].How
		}
		c.email, c.phone = u.EmailHow, u.PhoneHow
		return c
	}
	check := func(what string, got came, want came) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	const alone, beside, vouched, inside = org.HowAlone, org.HowSignedUp, org.HowVouched, org.HowInside
	key := func() object { return activitytest.APIKey("k", w.FreshKey()) }
	keys := func(n int) (ks []any) {
		for range n {
			ks = append(ks, key())
		}
		return ks
	}
	root := func(c *world) *org.User { return c.UserOf(c.Root) }

	// By the parent.
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", signUpOf(object{"apiKeys": keys(1), "authenticators": []any{activitytest.PasskeyOf(w, "p")}, "userEmail": "a@example.org", "userPhoneNumber": "+15550100"}))["subOrganizationId"])
	check("CREATE_SUB_ORGANIZATION by the parent", of(root(sub)), came{vouched, vouched, vouched, vouched})
	// By the proxy.
	check("a key alone", of(root(signsUp(w, object{"apiKeys": keys(1), "userEmail": "b@example.org"}))), came{alone, 0, alone, alone})
	check("a passkey alone", of(root(signsUp(w, object{"authenticators": []any{activitytest.PasskeyOf(w, "p")}}))), came{0, alone, alone, alone})
	check("two keys", of(root(signsUp(w, object{"apiKeys": keys(2)}))), came{beside, 0, beside, beside})
	check("a key and a passkey", of(root(signsUp(w, object{"apiKeys": keys(1), "authenticators": []any{activitytest.PasskeyOf(w, "p")}}))), came{beside, beside, beside, beside})
	stop := proxied(w)
	two := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("A", key()), activitytest.RootUser("B", key())))["subOrganizationId"])
	stop()
	check("two root users", of(root(two)), came{beside, 0, beside, beside})

	// Inside.
	user := func(members object) *org.User {
		u := activitytest.User("U " + w.FreshKey()[2:8])
		for k, v := range members {
			u[k] = v
		}
		return sub.UserOf(sub.NewUser(u))
	}
	check("CREATE_USERS", of(user(object{"apiKeys": keys(1), "authenticators": []any{activitytest.PasskeyOf(w, "p")}, "userEmail": "c@example.org", "userPhoneNumber": "+15550101"})), came{inside, inside, inside, inside})
	u := user(object{"apiKeys": keys(1)})
	sub.Run("CREATE_API_KEYS_V2", object{"userId": u.ID.String(), "apiKeys": keys(1)})
	sub.Run("CREATE_AUTHENTICATORS_V2", object{"userId": u.ID.String(), "authenticators": []any{activitytest.PasskeyOf(w, "p")}})
	check("CREATE_API_KEYS and CREATE_AUTHENTICATORS", of(sub.UserOf(u.ID.String())), came{inside, inside, inside, inside})
	for typ, params := range map[string]object{
		"UPDATE_USER":              {"userId": sub.Root, "userEmail": "d@example.org", "userPhoneNumber": "+15550102"},
		"UPDATE_USER_EMAIL":        {"userId": sub.Root, "userEmail": "e@example.org"},
		"UPDATE_USER_PHONE_NUMBER": {"userId": sub.Root, "userPhoneNumber": "+15550103"},
	} {
		before := *root(sub)
		sub.Run(typ, params)
		after := root(sub)
		if after.Email != before.Email && after.EmailHow != inside || after.Phone != before.Phone && after.PhoneHow != inside {
			t.Errorf("%s: %+v", typ, of(after))
		}
	}
	// What stamps is proven by it.
	if got := of(root(sub)); got.keys != org.HowProven {
		t.Errorf("the key that stamped: %+v", got)
	}
	if ids, err := w.Tx().ChildrenBy(org.ChildProven, "API_KEY_CURVE_SECP256K1:"+sub.Credential().PublicKey, nil, 2); len(ids) != 1 || err != nil {
		t.Errorf("a key that has stamped is found as proven by %v, %v", ids, err)
	}
	p := &root(sub).Authenticators[0]
	c := activity.PasskeyCredential(p)
	sub.Stamped = &c
	sub.Run("CREATE_USER_TAG", object{"userTagName": "t", "userIds": []any{}})
	if got := of(root(sub)); got.passkeys != org.HowProven {
		t.Errorf("the passkey that stamped: %+v", got)
	}
	if ids, err := w.Tx().ChildrenBy(org.ChildProven, org.PasskeyCurve+":"+hex.EncodeToString(p.CredentialID), nil, 2); len(ids) != 1 || err != nil {
		t.Errorf("a passkey that has stamped is found as proven by %v, %v", ids, err)
	}
}

// TestRefusedProvesNothing: a stamp on what is refused is no proof that lasts, and a session's key is never noted.
func TestRefusedProvesNothing(t *testing.T) {
	w := activitytest.New(t)
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	sub.Refuse("UPDATE_USER", object{"userId": w.NewID().String(), "userName": "X"}, 5, "")
	if how := sub.UserOf(sub.Root).APIKeys[0].How; how != org.HowVouched {
		t.Errorf("after a refusal %d", how)
	}
	sub.Alter(func(tx *org.Tx) {
		u := *sub.UserOf(sub.Root)
		u.APIKeys = append(slices.Clone(u.APIKeys), org.APIKey{ID: w.NewID(), PublicKey: w.FreshP256(), Type: "CREDENTIAL_TYPE_LOGIN", ExpirationSeconds: 900, CreatedMs: w.Now, How: org.HowInside})
		sub.Must(tx.PutUser(&u))
	})
	c := activity.APIKeyCredential(&sub.UserOf(sub.Root).APIKeys[1])
	sub.Stamped = &c
	sub.Run("CREATE_USER_TAG", object{"userTagName": "t", "userIds": []any{}})
	if how := sub.UserOf(sub.Root).APIKeys[1].How; how != org.HowInside {
		t.Errorf("a session's key is noted as %d", how)
	}
}
