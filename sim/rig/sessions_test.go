package rig_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// submit submits exactly this body.
func submit(u *client.User, typ string, body []byte) client.Reply {
	u.Test.Helper()
	return u.Post(wire.EndpointSubmit, request.Operation(typ), body)
}

// with is a user who sends these headers and no stamp.
func with(u *client.User, head ...wire.Header) *client.User {
	u = u.As(u.Organization, u.User, u.Key)
	u.Stamp = func([]byte) ([]wire.Header, error) { return head, nil }
	return u
}

// reads is a query of an organization in a session.
func reads(in *client.User, token, op string) client.Reply {
	in.Test.Helper()
	return with(in, wire.Header{Name: "X-Session", Value: token}).Query(op, nil)
}

// readOnly asks for a reader's session.
func readOnly(u *client.User) string {
	u.Test.Helper()
	return client.Text(u.Do("CREATE_READ_ONLY_SESSION", client.Object{}), "session")
}

// newSession are the parameters of a log-in with a new key.
func newSession() client.Object { return client.Object{"publicKey": client.NewKey().PublicKey} }

// profile makes a session profile.
func profile(u *client.User, name, scope string) string {
	u.Test.Helper()
	return client.Text(u.Do("CREATE_SESSION_PROFILE", client.Object{"sessionProfileName": name, "scope": scope}), "sessionProfileId")
}

// loginIn starts a session with a profile.
func loginIn(u *client.User, profile string) (*client.User, string) {
	u.Test.Helper()
	k := client.NewKey()
	token := client.Text(u.Do("STAMP_LOGIN", client.Object{"publicKey": k.PublicKey, "sessionProfileId": profile}), "session")
	return u.As(u.Organization, u.User, k), token
}

// voteOn are the parameters of a vote on what was asked for.
func voteOn(asked client.Reply) client.Object {
	return client.Object{"fingerprint": asked.Text("activity", "fingerprint")}
}

// An address is a link whose calls come from there.
type address struct {
	*rig.Rig
	from string
}

func (a address) Call(ctx context.Context, c *wire.Call) (*wire.Reply, error) {
	c.From = wire.From{Address: a.from}
	return a.Link.Call(ctx, c)
}

// of is a user at the address.
func (a address) of(u *client.User) *client.User {
	c := *u.Client
	c.Send = client.Link(a)
	return c.In(u.Test)
}

// The key of a session stamps for its user: it asks, acts and votes, until it has
// expired or made room.
func TestSessionKeyStamps(t *testing.T) {
	c := clocktest.New()
	root := rig.Start(t, rig.Options{Clock: c}).Root()
	session, token := root.Login()
	if token == "" || token == none {
		t.Fatal("no token")
	}
	if got := session.Query("whoami", nil); got.Status != 200 || got.Text("userId") != root.User {
		t.Errorf("whoami: %v", got)
	}
	session.Do("CREATE_USER_TAG", client.Tag("By session"))
	clerk := root.NewUser("Clerk")
	theirs, _ := clerk.Login()
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, clerk.User}})
	asked := session.Submit("CREATE_USER_TAG", client.Tag("By two sessions"))
	if asked.State() != "CONSENSUS_NEEDED" {
		t.Fatal(asked)
	}
	if voted := theirs.Submit("APPROVE_ACTIVITY", voteOn(asked)); voted.State() != "COMPLETED" {
		t.Error(voted)
	}
	if types := session.Query("list_users", nil).Text("users"); strings.Count(types, "CREDENTIAL_TYPE_LOGIN") != 2 {
		t.Errorf("%s", types)
	}
	// The token is no stamp and no reader's session.
	wants(t, "token of a log-in in X-Session", reads(root, token, "whoami"), 401, "SIGNATURE_INVALID", "not read-only")

	// Ten later ones end it.
	for range 10 {
		clerk.Login()
	}
	wants(t, "a session that made room", theirs.Query("whoami", nil), 401, "PUBLIC_KEY_NOT_FOUND", "could not find public key in organization or its parent organization")

	c.Pass(901 * time.Second)
	wants(t, "an expired session asks", session.Query("whoami", nil), 401, "API_KEY_EXPIRED", "expired api key",
		"could not find public key in organization or its parent organization", "Unauthenticated desc = expired api key publicKey")
	wants(t, "an expired session logs in", session.Submit("STAMP_LOGIN", newSession()), 401, "API_KEY_EXPIRED")
}

// The same body again is the same log-in.
func TestLoginAgain(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	body := root.Body("STAMP_LOGIN", newSession())
	first, again := submit(root, "STAMP_LOGIN", body), submit(root, "STAMP_LOGIN", body)
	if first.Result() == nil || first.Text("activity", "id") != again.Text("activity", "id") || client.Text(first.Result(), "session") != client.Text(again.Result(), "session") {
		t.Errorf("%v\n%v", first, again)
	}
	// Others' keys cannot be made sessions.
	other := root.NewUser("Other")
	session, _ := other.Login()
	for what, k := range map[string]laptop.KeyPair{"a key of another user": other.Key, "another user's session": session.Key, "an own key": root.Key} {
		if got := root.Submit("STAMP_LOGIN", client.Object{"publicKey": k.PublicKey}); got.Status != 400 || !strings.Contains(got.Text("message"), "unique") {
			t.Errorf("%s: %v", what, got)
		}
	}
	// For themselves users need no policy, for others they do.
	user := root.NewUser("User")
	point := "04" + strings.Repeat("0", 128)
	for _, in := range []client.Object{{"targetPublicKey": point}, {"targetPublicKey": point, "userId": user.User}} {
		if got := user.Submit("CREATE_READ_WRITE_SESSION_V2", in); got.Status != 400 {
			t.Errorf("not a point: %v", got)
		}
	}
	another, own := client.Object{"targetPublicKey": other.Key.PublicKey, "userId": root.User}, client.Object{"targetPublicKey": other.Key.PublicKey, "userId": user.User}
	wants(t, "for another", user.Submit("CREATE_READ_WRITE_SESSION_V2", another), 403, "REQUEST_NOT_AUTHORIZED")
	user.Do("CREATE_READ_WRITE_SESSION_V2", own)
	root.Do("CREATE_READ_WRITE_SESSION_V2", own)
}

// A scope binds root too, and cannot be left by logging in again.
func TestScopeBindsRoot(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	auth, wallets := profile(root, "Logs in", "activity.resource == 'AUTH'"), profile(root, "Wallets", "activity.resource == 'WALLET'")
	for _, at := range []*client.User{root, root.NewSubOrganization("Sub")} {
		in, _ := loginIn(at, auth)
		wants(t, "outside of the scope", in.Submit("CREATE_USER_TAG", client.Tag("Tag")), 403, "REQUEST_NOT_AUTHORIZED")
		next, token := in.Login()
		if claims := claimsOf(t, token); claims["session_profile_id"] != auth || claims["session_type"] != "Logs in" || claims["scope"] != "activity.resource == 'AUTH'" {
			t.Errorf("%v", claims)
		}
		wants(t, "outside of the inherited scope", next.Submit("CREATE_USER_TAG", client.Tag("Tag")), 403, "REQUEST_NOT_AUTHORIZED")
		if got := in.Submit("STAMP_LOGIN", client.Object{"publicKey": client.NewKey().PublicKey, "sessionProfileId": wallets}); got.Status != 400 {
			t.Errorf("another profile: %v", got)
		}
		w, _ := loginIn(at, wallets)
		w.Do("CREATE_WALLET", client.Wallet("W"))
		wants(t, "log-in out of scope", w.Submit("STAMP_LOGIN", newSession()), 403, "REQUEST_NOT_AUTHORIZED")
		wants(t, "a reader's session out of scope", w.Submit("CREATE_READ_ONLY_SESSION", client.Object{}), 403, "REQUEST_NOT_AUTHORIZED")
	}
	// Whose profile is another organization's?
	other := root.NewSubOrganization("Sub")
	if got := other.Submit("STAMP_LOGIN", client.Object{"publicKey": client.NewKey().PublicKey, "sessionProfileId": other.Organization}); got.Status != 404 {
		t.Errorf("no profile: %v", got)
	}
}

// A scope binds votes as it binds what is asked for: by the activity that they are about. One that is an error on it
// binds too, and what policies would say is not told to those who are bounded.
func TestScopeBindsVotes(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	bounded := func(u *client.User, scope string) *client.User {
		in, _ := loginIn(u, profile(root, scope, scope))
		return in
	}
	clerk := root.NewUser("Clerk")
	wallets, tags := bounded(clerk, "activity.resource == 'WALLET'"), bounded(clerk, "activity.resource == 'USER'")
	fails := bounded(clerk, "eth.tx.nonce == 1 || activity.resource == 'USER'")
	wants(t, "an error", bounded(root, "eth.tx.nonce == 2 || activity.resource == 'USER'").Submit("CREATE_USER_TAG", client.Tag("Tag")), 403, "REQUEST_NOT_AUTHORIZED")
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, clerk.User}})
	vote := voteOn(root.Submit("CREATE_USER_TAG", client.Tag("Tag")))
	for _, in := range []*client.User{wallets, fails} {
		wants(t, "a yes outside of the scope", in.Submit("APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
		wants(t, "a no outside of the scope", in.Submit("REJECT_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
		activity := client.Object{"type": "ACTIVITY_TYPE_CREATE_USER_TAG", "parameters": client.Tag("Other")}
		if got := in.Query("evaluate_policies", client.Object{"activity": activity}); got.Status != 501 {
			t.Errorf("told what policies say: %v", got)
		}
	}
	if got := tags.Submit("APPROVE_ACTIVITY", vote); got.State() != "COMPLETED" {
		t.Errorf("a yes within the scope: %v", got)
	}
}

func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q", token)
	}
	b, err := base64.RawStdEncoding.DecodeString(parts[1]) // as clients do
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A session passes a step of MFA that names sessions, and none that names keys.
func TestSessionAsFactor(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	user := root.NewUser("User")
	root.Do("CREATE_POLICY_V3", client.Policy("Tags", "ALLOW", "activity.resource == 'USER'", "approvers.any(u, u.id == '"+user.User+"')"))
	step := func(types ...string) client.Object {
		var ways []client.Object
		for _, typ := range types {
			ways = append(ways, client.Object{"type": "AUTHENTICATION_TYPE_" + typ})
		}
		return client.Object{"any": ways}
	}
	session, _ := user.Login()
	root.Do("CREATE_MFA_POLICY", client.Object{"userId": user.User, "mfaPolicyName": "Both", "condition": "activity.resource == 'USER'", "order": 1,
		"requiredAuthenticationMethods": []any{step("API_KEY"), step("SESSION", "API_KEY")}})
	asked := session.Submit("CREATE_USER_TAG", client.Tag("Tag"))
	if asked.State() != "AUTHENTICATORS_NEEDED" {
		t.Fatal(asked)
	}
	second, _ := user.Login()
	if got := second.Submit("APPROVE_ACTIVITY", voteOn(asked)); got.State() != "AUTHENTICATORS_NEEDED" {
		t.Errorf("two sessions passed for a key: %v", got)
	}
	if got := user.Submit("APPROVE_ACTIVITY", voteOn(asked)); got.State() != "COMPLETED" {
		t.Error(got)
	}
}

func TestReadOnlySessions(t *testing.T) {
	c := clocktest.New()
	root := rig.Start(t, rig.Options{Clock: c, Organizations: 2}).Root()
	user, sub := root.NewUser("User"), root.NewSubOrganization("Sub")
	token, below := readOnly(root), readOnly(sub)
	for _, op := range []string{"whoami", "list_users", "list_activities", "get_organization", "list_suborgs"} {
		if got := reads(root, token, op); got.Status != 200 {
			t.Errorf("%s: %v", op, got)
		}
	}
	if got := reads(sub, below, "whoami"); got.Status != 200 || got.Text("organizationId") != sub.Organization {
		t.Error(got)
	}
	const unknown = "PUBLIC_KEY_NOT_FOUND"
	wants(t, "one below", reads(sub, token, "list_users"), 401, unknown)
	wants(t, "one below, whoami", reads(sub, token, "whoami"), 401, unknown)
	wants(t, "one above", reads(root, below, "list_users"), 401, unknown)
	wants(t, "one above, whoami", reads(root, below, "whoami"), 401, unknown)
	wants(t, "nowhere", reads(root.As("7c7b6f1c-0000-4000-8000-000000000000", "", root.Key), token, "whoami"), 404, "ORGANIZATION_NOT_FOUND")
	if got := reads(root, token, "no_such_query"); got.Status != 404 {
		t.Error(got)
	}

	// It does nothing.
	session := wire.Header{Name: "X-Session", Value: token}
	for _, typ := range []string{"CREATE_USER_TAG", "STAMP_LOGIN", "CREATE_READ_ONLY_SESSION", "APPROVE_ACTIVITY"} {
		wants(t, typ, with(root, session).Submit(typ, client.Tag("x")), 401, "SIGNATURE_MISSING")
	}
	// One header says who asks.
	whoami, err := root.Request(wire.EndpointQuery, "whoami", root.Ask(nil))
	if err != nil {
		t.Fatal(err)
	}
	stamp := whoami.Head[0]
	for what, head := range map[string][]wire.Header{
		"session and stamp": {session, stamp}, "stamp and session": {stamp, session}, "two sessions": {session, session},
		"session in another case": {{Name: "x-session", Value: token}, {Name: "x-stamp", Value: "x"}},
		"session and passkey":     {session, {Name: "X-Stamp-WebAuthn", Value: "{}"}}, "session and token": {session, {Name: "X-Stamp-Attested", Value: "{}"}},
	} {
		wants(t, what, with(root, head...).Query("whoami", nil), 401, "SIGNATURE_INVALID", "more than one stamp header")
	}
	// It is the token that was given, to the letter.
	parts := strings.Split(token, ".")
	claims := func(change func(m map[string]any)) string {
		m := claimsOf(t, token)
		change(m)
		b, _ := json.Marshal(m)
		return parts[0] + "." + base64.RawURLEncoding.EncodeToString(b) + "." + parts[2]
	}
	head := func(text string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + parts[1] + "." + parts[2]
	}
	for what, text := range map[string]string{
		"empty": "", "no token": "session", "no signature": parts[0] + "." + parts[1] + ".", "too long": strings.Repeat("a", 17<<10),
		"alg none": head(`{"alg":"none","typ":"JWT"}`), "alg HS256": head(`{"alg":"HS256","typ":"JWT"}`),
		"another user":    claims(func(m map[string]any) { m["user_id"] = user.User }),
		"another time":    claims(func(m map[string]any) { m["exp"] = 99999999999 }),
		"another one's":   claims(func(m map[string]any) { m["organization_id"] = sub.Organization }),
		"signature of":    parts[0] + "." + parts[1] + "." + strings.Split(below, ".")[2],
		"a bit elsewhere": token[:len(token)-10] + flipped(token[len(token)-10:]),
	} {
		wants(t, what, reads(root, text, "whoami"), 401, "SIGNATURE_INVALID", "could not verify session")
	}
	// Nor does a profile's name make one.
	_, fake := loginIn(root, profile(root, "SESSION_TYPE_READ_ONLY", "true"))
	wants(t, "a profile's name", reads(root, fake, "whoami"), 401, "SIGNATURE_INVALID")

	// It ends with what asked for it.
	theirs, lone := readOnly(user), readOnly(root.NewUser("Extra"))
	in, _ := root.Login()
	ofSession := readOnly(in)
	for _, text := range []string{theirs, lone, ofSession} {
		if got := reads(root, text, "whoami"); got.Status != 200 {
			t.Error(got)
		}
	}
	root.Do("DELETE_USERS", client.Object{"userIds": []any{user.User}})
	wants(t, "of a user who is gone", reads(root, theirs, "whoami"), 401, unknown)
	root.Do("STAMP_LOGIN", client.Object{"publicKey": client.NewKey().PublicKey, "expirationSeconds": "60"})
	root.Do("STAMP_LOGIN", client.Object{"publicKey": client.NewKey().PublicKey, "invalidateExisting": true})
	wants(t, "of a session that was ended", reads(root, ofSession, "whoami"), 401, unknown)
	sub.Do("DELETE_SUB_ORGANIZATION", client.Object{"deleteWithoutExport": true})
	wants(t, "of an organization that is gone", reads(sub, below, "whoami"), 401, unknown)
	c.Pass(3601 * time.Second)
	wants(t, "expired", reads(root, token, "whoami"), 401, "API_KEY_EXPIRED", "expired api key")
}

// office is an allowlist's rule.
func office(cidr string) []any { return []any{client.Object{"cidr": cidr, "label": "Office"}} }

// A reader comes from where the credential that asked for the session may be used.
func TestReaderAndAllowlist(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	root := r.Root()
	ofRoot, ofUser := readOnly(root), readOnly(root.NewUser("User"))
	root.Do("SET_IP_ALLOWLIST", client.Object{"rules": office("192.0.2.0/24"), "publicKey": root.Key.PublicKey, "onEvaluationError": "ALLOW"})
	root.Do("SET_IP_ALLOWLIST", client.Object{"rules": office("192.0.2.0/24"), "enabled": true, "onEvaluationError": "DENY"})
	for _, token := range []string{ofRoot, ofUser} {
		if got := reads(address{r, "192.0.2.7"}.of(root), token, "whoami"); got.Status != 200 {
			t.Error(got)
		}
		wants(t, "from elsewhere", reads(address{r, "198.51.100.7"}.of(root), token, "whoami"), 403, "FORBIDDEN", "not on the IP allowlist")
	}
}

// The allowlist of an organization binds its users below as well, whether they read or
// start log-ins there; users of the sub-organization itself it does not.
func TestAllowlistBindsBelow(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	root := r.Root()
	listed, sub := root.NewUser("Listed"), root.NewSubOrganization("Sub")
	_, target := encapsulation(t)
	root.Do("SET_IP_ALLOWLIST", client.Object{"publicKey": listed.Key.PublicKey, "rules": office("203.0.113.0/24"), "onEvaluationError": "DENY"})
	root.Do("SET_IP_ALLOWLIST", client.Object{"enabled": true, "rules": office("192.0.2.0/24"), "onEvaluationError": "DENY"})
	const at, own, elsewhere, unknown = "192.0.2.7", "203.0.113.7", "198.51.100.7", ""
	for name, ask := range map[string]func(u *client.User) client.Reply{
		"a query": func(u *client.User) client.Reply { return u.Query("list_wallets", nil) },
		"whoami":  func(u *client.User) client.Reply { return u.Query("whoami", nil) },
		"a log-in": func(u *client.User) client.Reply { // refused later on: nobody has the address
			return u.Submit("EMAIL_AUTH_V3", client.Object{"email": "nobody@example.org", "targetPublicKey": target,
				"emailCustomization": client.Object{"appName": "App"}})
		},
		"what is the sub-organization's own": func(u *client.User) client.Reply { return u.Submit("CREATE_WALLET", client.Wallet("W")) },
	} {
		for _, c := range []struct {
			by      *client.User
			address string
			refused bool
		}{
			{root, at, false}, {root, elsewhere, true}, {root, own, true}, {root, unknown, true},
			{listed, own, false}, {listed, at, true}, {listed, elsewhere, true}, {listed, unknown, true},
			{sub, elsewhere, false}, {sub, unknown, false},
		} {
			got := ask(address{r, c.address}.of(sub.As(sub.Organization, "", c.by.Key)))
			if bound := strings.Contains(got.Text("message"), "IP allowlist"); bound != c.refused || bound && got.Status != 403 {
				t.Errorf("%s from %q: %v", name, c.address, got)
			}
		}
	}
}

// flipped changes one letter.
func flipped(s string) string {
	c := byte('A')
	if s[0] == c {
		c = 'B'
	}
	return string(c) + s[1:]
}

// A client that has just signed somebody up logs him in naming the parent, stamped
// by a key of the sub-organization that soon expires.
func TestLoginBelowTheOneNamed(t *testing.T) {
	c := clocktest.New()
	root := rig.Start(t, rig.Options{Clock: c}).Root()
	id := root.Organization
	signUp := func(k laptop.KeyPair) string {
		user := client.NewRootUser("Root", k)
		client.Get(user, "apiKeys", "0").(client.Object)["expirationSeconds"] = "60"
		return client.Text(root.Do("CREATE_SUB_ORGANIZATION_V8", client.SubOrganization("Sub", user)), "subOrganizationId")
	}
	named := func(k laptop.KeyPair) *client.User { return root.As(id, "", k) } // the parent
	brief := named(client.NewKey())
	sub := signUp(brief.Key)
	k := client.NewKey()
	body := root.Body("STAMP_LOGIN", client.Object{"publicKey": k.PublicKey})
	got := submit(brief, "STAMP_LOGIN", body)
	if got.Status != 200 || got.Text("activity", "organizationId") != sub {
		t.Fatal(got)
	}
	if claims := claimsOf(t, client.Text(got.Result(), "session")); claims["organization_id"] != sub || claims["public_key"] != k.PublicKey {
		t.Errorf("%v", claims)
	}
	if again := submit(brief, "STAMP_LOGIN", body); again.Text("activity", "id") != got.Text("activity", "id") {
		t.Error(again)
	}
	if got := root.As(sub, "", k).Query("whoami", nil); got.Status != 200 {
		t.Error(got)
	}
	if got := brief.Query("whoami", nil); got.Status != 200 || got.Text("organizationId") != sub {
		t.Error(got)
	}
	if got := root.Submit("STAMP_LOGIN", newSession()); got.Text("activity", "organizationId") != id {
		t.Errorf("a user of the parent: %v", got)
	}
	if got := brief.Submit("CREATE_READ_ONLY_SESSION", client.Object{}); got.Status != 200 || got.Text("activity", "organizationId") != sub {
		t.Error(got)
	}
	// Nothing else looks below, and the key of a session is not looked for.
	const unknown = "PUBLIC_KEY_NOT_FOUND"
	wants(t, "another activity", brief.Submit("CREATE_READ_WRITE_SESSION_V2", client.Object{"targetPublicKey": k.PublicKey}), 401, unknown)
	wants(t, "another activity", brief.Submit("CREATE_USER_TAG", client.Tag("x")), 401, unknown)
	wants(t, "another query", brief.Query("list_users", nil), 401, unknown)
	wants(t, "by a session", named(k).Submit("STAMP_LOGIN", newSession()), 401, unknown)
	wants(t, "by nobody", named(client.NewKey()).Submit("STAMP_LOGIN", newSession()), 401, unknown)
	wants(t, "by the parent's user below", root.As(sub, "", root.Key).Submit("STAMP_LOGIN", newSession()), 400, "ORGANIZATION_MISMATCH")
	// Two that the parent has given one key: neither is meant, until the key has stamped in one.
	both := named(client.NewKey())
	first := signUp(both.Key)
	signUp(both.Key)
	wants(t, "two", both.Submit("STAMP_LOGIN", newSession()), 401, "CREDENTIAL_CONFLICT", "more than one suborg")
	if got := root.As(first, "", both.Key).Submit("STAMP_LOGIN", newSession()); got.Status != 200 {
		t.Error(got)
	}
	for u, want := range map[*client.User]string{both: first, brief: sub} {
		signUp(u.Key)
		if got := u.Submit("STAMP_LOGIN", newSession()); got.Text("activity", "organizationId") != want {
			t.Errorf("a key that has stamped in %s: %v", want, got)
		}
	}
	late := named(client.NewKey())
	signUp(late.Key)
	c.Pass(61 * time.Second)
	wants(t, "expired", late.Submit("STAMP_LOGIN", newSession()), 401, "API_KEY_EXPIRED")
}

// A body that names the parent makes one activity, wherever its key leads later.
func TestOneBodyOneActivity(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	top := root.Organization
	by := func(k laptop.KeyPair) *client.User { return root.As(top, "", k) }
	sub := func(name string, k laptop.KeyPair) string {
		return client.Text(root.Do("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization(name, client.NewRootUser("U", k))), "subOrganizationId")
	}
	ends := func(k laptop.KeyPair, sub string) {
		root.As(sub, "", k).Do("DELETE_SUB_ORGANIZATION", client.Object{"deleteWithoutExport": true})
	}
	again := func(what string, u *client.User, typ string, body []byte, first client.Reply) {
		t.Helper()
		got := submit(u, typ, body)
		if got.Status != first.Status || first.Text("activity", "id") != got.Text("activity", "id") ||
			first.Text("activity", "organizationId") != got.Text("activity", "organizationId") {
			t.Errorf("%s: %v\n%v", what, first, got)
		}
	}
	for _, typ := range []string{"STAMP_LOGIN", "CREATE_READ_ONLY_SESSION"} {
		k, session := client.NewKey(), client.NewKey()
		one := sub("one "+typ, k)
		in := client.Object{}
		if typ == "STAMP_LOGIN" {
			in["publicKey"] = session.PublicKey
		}
		body := root.Body(typ, in)
		first := submit(by(k), typ, body)
		if first.Status != 200 || first.Text("activity", "organizationId") != one {
			t.Fatal(first)
		}
		again("at once", by(k), typ, body, first)
		two := sub("two "+typ, k)
		again("with another sub-organization", by(k), typ, body, first)
		ends(k, one)
		again("the first is deleted", by(k), typ, body, first)
		wants(t, "a session that ended with the first", root.As(two, "", session).Query("whoami", nil), 401, "PUBLIC_KEY_NOT_FOUND")
		if got := by(k).Submit(typ, in); got.Status != 200 || got.Text("activity", "organizationId") != two {
			t.Errorf("a new body: %v", got)
		}
		// Nor by a user of the parent who has the key then, nor by one below who has it after him.
		ends(k, two)
		ids := root.Do("CREATE_API_KEYS_V2", client.Object{"userId": root.User, "apiKeys": []any{client.APIKey(typ, k)}})["apiKeyIds"]
		wants(t, "a user of the parent", submit(by(k), typ, body), 400, "INVALID_TIME")
		if typ == "STAMP_LOGIN" {
			in = newSession()
		}
		body = root.Body(typ, in)
		if got := submit(by(k), typ, body); got.Status != 200 || got.Text("activity", "organizationId") != top {
			t.Fatalf("of the parent: %v", got)
		}
		root.Do("DELETE_API_KEYS", client.Object{"userId": root.User, "apiKeyIds": ids})
		sub("three "+typ, k)
		wants(t, "below, what was the parent's own", submit(by(k), typ, body), 400, "INVALID_TIME")
	}
	// What fails below is known above as well.
	k := client.NewKey()
	one := sub("four", k)
	body := root.Body("STAMP_LOGIN", client.Object{"publicKey": k.PublicKey})
	first := submit(by(k), "STAMP_LOGIN", body)
	again("a failure", by(k), "STAMP_LOGIN", body, first)
	ends(k, one)
	sub("five", k)
	again("a failure of a deleted one", by(k), "STAMP_LOGIN", body, first)
	wants(t, "a vote in the parent", root.Submit("APPROVE_ACTIVITY", client.Object{"fingerprint": fingerprintOf(body)}), 404, none, "No activity found")
	// A sub-organization's making is kept where its body points to.
	made := root.Body("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("six", client.NewRootUser("U", client.NewKey())))
	again("a sign-up", root, "CREATE_SUB_ORGANIZATION_V7", made, submit(root, "CREATE_SUB_ORGANIZATION_V7", made))
}

func fingerprintOf(body []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(body)) }
