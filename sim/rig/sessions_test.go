package rig_test

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// answered is one answer.
type answered struct {
	status int
	m      map[string]any
}

func (a answered) String() string { return fmt.Sprint(a.status, " ", a.m) }

// result is the result of the activity that was done.
func (a answered) result(t *testing.T) map[string]any {
	t.Helper()
	all, _ := rig.Get(a.m, "activity", "result").(map[string]any)
	for _, one := range all {
		r, _ := one.(map[string]any)
		return r
	}
	t.Fatalf("no result: %v", a)
	return nil
}

// call sends a body with these headers.
func (a rateClient) call(endpoint wire.Endpoint, op string, body []byte, head ...wire.Header) answered {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := a.Link.Call(ctx, &wire.Call{Endpoint: endpoint, Op: op, Head: head, Body: body, WithinMs: uint32(wire.MaxWait / time.Millisecond)})
	if err != nil {
		a.t.Fatal(err)
	}
	got := answered{status: int(r.Status)}
	if err := json.Unmarshal(r.Body, &got.m); err != nil {
		a.t.Fatal(err)
	}
	return got
}

func (a rateClient) stamped(key laptop.KeyPair, body []byte) wire.Header {
	head, err := laptop.Stamp(key, body)
	if err != nil {
		a.t.Fatal(err)
	}
	return head[0]
}

// submit has key do something in an organization.
func (a rateClient) submit(key laptop.KeyPair, organization, typ string, parameters any) answered {
	a.t.Helper()
	return a.submitBody(key, typ, a.BodyOf(organization, "ACTIVITY_TYPE_"+typ, parameters))
}

func (a rateClient) submitBody(key laptop.KeyPair, typ string, body []byte) answered {
	a.t.Helper()
	op := strings.ToLower(typ)
	if i := strings.LastIndex(op, "_v"); i == len(op)-3 {
		op = op[:i]
	}
	return a.call(wire.EndpointSubmit, op, body, a.stamped(key, body))
}

// done is submit of what must be done, and its result.
func (a rateClient) done(key laptop.KeyPair, organization, typ string, parameters any) map[string]any {
	a.t.Helper()
	got := a.submit(key, organization, typ, parameters)
	if got.status != 200 || rig.Text(got.m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		a.t.Fatalf("%s: %v", typ, got)
	}
	return got.result(a.t)
}

// ask is a query of key.
func (a rateClient) ask(key laptop.KeyPair, organization, op string) answered {
	a.t.Helper()
	body := fmt.Appendf(nil, `{"organizationId":%q}`, organization)
	return a.call(wire.EndpointQuery, op, body, a.stamped(key, body))
}

// reads is a query in a session.
func (a rateClient) reads(token, organization, op string) answered {
	a.t.Helper()
	return a.call(wire.EndpointQuery, op, fmt.Appendf(nil, `{"organizationId":%q}`, organization), wire.Header{Name: "X-Session", Value: token})
}

// login starts a session of key's user.
func (a rateClient) login(key laptop.KeyPair, organization string, more ...string) (laptop.KeyPair, string) {
	a.t.Helper()
	k := newKey(a.t)
	in := map[string]any{"publicKey": k.PublicKey}
	for i := 0; i < len(more); i += 2 {
		in[more[i]] = more[i+1]
	}
	return k, rig.Text(a.done(key, organization, "STAMP_LOGIN", in), "session")
}

// user makes a user with a key.
func (a rateClient) user(name string) (string, laptop.KeyPair) {
	a.t.Helper()
	k := newKey(a.t)
	r := a.done(a.Credentials.RootAPIKey, a.Credentials.OrganizationID, "CREATE_USERS_V4", map[string]any{"users": []any{map[string]any{"userName": name,
		"authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
		"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	return rig.Text(r, "userIds", "0"), k
}

// refuses holds a refusal against status, machine code and words.
func (a rateClient) refuses(what string, got answered, status int, code string, words ...string) {
	a.t.Helper()
	name := rig.Text(got.m, "turnkeyErrorCode")
	for _, w := range append(words, "") {
		if got.status != status || name != code || !strings.Contains(rig.Text(got.m, "message"), w) {
			a.t.Errorf("%s: %v, want %d %s %q", what, got, status, code, w)
		}
	}
}

// The key of a session stamps for its user: it asks, acts and votes, until it has
// expired or made room.
func TestSessionKeyStamps(t *testing.T) {
	c := clocktest.New()
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c})}
	id, root := a.Credentials.OrganizationID, a.Credentials.RootAPIKey
	key, token := a.login(root, id)
	if token == "" {
		t.Fatal("no token")
	}
	if got := a.ask(key, id, "whoami"); got.status != 200 || rig.Text(got.m, "userId") != a.Credentials.RootUserID {
		t.Errorf("whoami: %v", got)
	}
	a.done(key, id, "CREATE_USER_TAG", map[string]any{"userTagName": "By session", "userIds": []any{}})
	clerk, clerkKey := a.user("Clerk")
	theirs, _ := a.login(clerkKey, id)
	a.done(root, id, "UPDATE_ROOT_QUORUM", map[string]any{"threshold": 2, "userIds": []any{a.Credentials.RootUserID, clerk}})
	asked := a.submit(key, id, "CREATE_USER_TAG", map[string]any{"userTagName": "By two sessions", "userIds": []any{}})
	if s := rig.Text(asked.m, "activity", "status"); s != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		t.Fatalf("%v", asked)
	}
	voted := a.submit(theirs, id, "APPROVE_ACTIVITY", map[string]any{"fingerprint": rig.Text(asked.m, "activity", "fingerprint")})
	if s := rig.Text(voted.m, "activity", "status"); s != "ACTIVITY_STATUS_COMPLETED" {
		t.Errorf("%v", voted)
	}
	if types := rig.Text(a.ask(key, id, "list_users").m, "users"); strings.Count(types, "CREDENTIAL_TYPE_LOGIN") != 2 {
		t.Errorf("%s", types)
	}
	// The token is no stamp and no reader's session.
	a.refuses("token of a log-in in X-Session", a.reads(token, id, "whoami"), 401, "SIGNATURE_INVALID", "not read-only")

	// Ten later ones end it.
	for range 10 {
		a.login(clerkKey, id)
	}
	a.refuses("a session that made room", a.ask(theirs, id, "whoami"), 401, "PUBLIC_KEY_NOT_FOUND", "could not find public key in organization or its parent organization")

	c.Pass(901 * time.Second)
	a.refuses("an expired session asks", a.ask(key, id, "whoami"), 401, "API_KEY_EXPIRED", "expired api key", "could not find public key in organization or its parent organization",
		"Unauthenticated desc = expired api key publicKey")
	a.refuses("an expired session logs in", a.submit(key, id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}), 401, "API_KEY_EXPIRED")
}

// The same body again is the same log-in.
func TestLoginAgain(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	body := a.Body("ACTIVITY_TYPE_STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey})
	first, again := a.submitBody(root, "STAMP_LOGIN", body), a.submitBody(root, "STAMP_LOGIN", body)
	if f, g := rig.Text(first.m, "activity", "id"), rig.Text(again.m, "activity", "id"); f != g || rig.Text(first.result(t), "session") != rig.Text(again.result(t), "session") {
		t.Errorf("%v\n%v", first, again)
	}
	// Others' keys cannot be made sessions.
	_, other := a.user("Other")
	session, _ := a.login(other, id)
	for what, public := range map[string]string{"a key of another user": other.PublicKey, "another user's session": session.PublicKey, "an own key": root.PublicKey} {
		got := a.submit(root, id, "STAMP_LOGIN", map[string]any{"publicKey": public})
		if got.status != 400 || !strings.Contains(rig.Text(got.m, "message"), "unique") {
			t.Errorf("%s: %v", what, got)
		}
	}
	// For themselves users need no policy, for others they do.
	user, key := a.user("User")
	target := "04" + strings.Repeat("0", 128)
	for _, in := range []map[string]any{{"targetPublicKey": target}, {"targetPublicKey": target, "userId": user}} {
		if got := a.submit(key, id, "CREATE_READ_WRITE_SESSION_V2", in); got.status != 400 {
			t.Errorf("not a point: %v", got)
		}
	}
	another := map[string]any{"targetPublicKey": other.PublicKey, "userId": a.Credentials.RootUserID}
	a.refuses("for another", a.submit(key, id, "CREATE_READ_WRITE_SESSION_V2", another), 403, "REQUEST_NOT_AUTHORIZED")
	a.done(key, id, "CREATE_READ_WRITE_SESSION_V2", map[string]any{"targetPublicKey": other.PublicKey, "userId": user})
	a.done(root, id, "CREATE_READ_WRITE_SESSION_V2", map[string]any{"targetPublicKey": other.PublicKey, "userId": user})
}

// A scope binds root too, and cannot be left by logging in again.
func TestScopeBindsRoot(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	profile := func(name, scope string) string {
		return rig.Text(a.done(root, id, "CREATE_SESSION_PROFILE", map[string]any{"sessionProfileName": name, "scope": scope}), "sessionProfileId")
	}
	sub, subRoot := a.sub()
	auth, wallets := profile("Logs in", "activity.resource == 'AUTH'"), profile("Wallets", "activity.resource == 'WALLET'")
	tag := map[string]any{"userTagName": "Tag", "userIds": []any{}}
	for _, at := range []struct {
		id  string
		key laptop.KeyPair
	}{{id, root}, {sub, subRoot}} {
		in, _ := a.login(at.key, at.id, "sessionProfileId", auth)
		a.refuses("outside of the scope", a.submit(in, at.id, "CREATE_USER_TAG", tag), 403, "REQUEST_NOT_AUTHORIZED")
		next, token := a.login(in, at.id)
		if claims := claimsOf(t, token); claims["session_profile_id"] != auth || claims["session_type"] != "Logs in" || claims["scope"] != "activity.resource == 'AUTH'" {
			t.Errorf("%v", claims)
		}
		a.refuses("outside of the inherited scope", a.submit(next, at.id, "CREATE_USER_TAG", tag), 403, "REQUEST_NOT_AUTHORIZED")
		if got := a.submit(in, at.id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey, "sessionProfileId": wallets}); got.status != 400 {
			t.Errorf("another profile: %v", got)
		}
		w, _ := a.login(at.key, at.id, "sessionProfileId", wallets)
		a.done(w, at.id, "CREATE_WALLET", map[string]any{"walletName": "W", "accounts": []any{}})
		a.refuses("log-in out of scope", a.submit(w, at.id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}), 403, "REQUEST_NOT_AUTHORIZED")
		asked := a.submit(w, at.id, "CREATE_READ_ONLY_SESSION", map[string]any{})
		a.refuses("a reader's session out of scope", asked, 403, "REQUEST_NOT_AUTHORIZED")
	}
	// Whose profile is another organization's?
	other, subKey := a.sub()
	if got := a.submit(subKey, other, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey, "sessionProfileId": other}); got.status != 404 {
		t.Errorf("no profile: %v", got)
	}
}

// A scope binds votes as it binds what is asked for: by the activity that they are about. One that is an error on it
// binds too, and what policies would say is not told to those who are bounded.
func TestScopeBindsVotes(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	bounded := func(key laptop.KeyPair, scope string) laptop.KeyPair {
		profile := rig.Text(a.done(root, id, "CREATE_SESSION_PROFILE", map[string]any{"sessionProfileName": scope, "scope": scope}), "sessionProfileId")
		in, _ := a.login(key, id, "sessionProfileId", profile)
		return in
	}
	clerk, clerkKey := a.user("Clerk")
	wallets, tags := bounded(clerkKey, "activity.resource == 'WALLET'"), bounded(clerkKey, "activity.resource == 'USER'")
	fails := bounded(clerkKey, "eth.tx.nonce == 1 || activity.resource == 'USER'")
	tag := map[string]any{"userTagName": "Tag", "userIds": []any{}}
	a.refuses("an error", a.submit(bounded(root, "eth.tx.nonce == 2 || activity.resource == 'USER'"), id, "CREATE_USER_TAG", tag), 403, "REQUEST_NOT_AUTHORIZED")
	a.done(root, id, "UPDATE_ROOT_QUORUM", map[string]any{"threshold": 2, "userIds": []any{a.Credentials.RootUserID, clerk}})
	asked := a.submit(root, id, "CREATE_USER_TAG", tag)
	vote := map[string]any{"fingerprint": rig.Text(asked.m, "activity", "fingerprint")}
	for _, key := range []laptop.KeyPair{wallets, fails} {
		a.refuses("a yes outside of the scope", a.submit(key, id, "APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
		a.refuses("a no outside of the scope", a.submit(key, id, "REJECT_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
		body := fmt.Appendf(nil, `{"organizationId":%q,"activity":{"type":"ACTIVITY_TYPE_CREATE_USER_TAG","parameters":{"userTagName":"Other","userIds":[]}}}`, id)
		if got := a.call(wire.EndpointQuery, "evaluate_policies", body, a.stamped(key, body)); got.status != 501 {
			t.Errorf("told what policies say: %v", got)
		}
	}
	if got := a.submit(tags, id, "APPROVE_ACTIVITY", vote); rig.Text(got.m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
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
	a := rateClient{t, rig.Start(t, rig.Options{})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	user, key := a.user("User")
	a.done(root, id, "CREATE_POLICY_V3", map[string]any{
		"policyName": "Tags", "effect": "EFFECT_ALLOW", "notes": "", "condition": "activity.resource == 'USER'", "consensus": "approvers.any(u, u.id == '" + user + "')"})
	step := func(types ...string) map[string]any {
		var ways []map[string]any
		for _, typ := range types {
			ways = append(ways, map[string]any{"type": "AUTHENTICATION_TYPE_" + typ})
		}
		return map[string]any{"any": ways}
	}
	session, _ := a.login(key, id)
	a.done(root, id, "CREATE_MFA_POLICY", map[string]any{"userId": user, "mfaPolicyName": "Both", "condition": "activity.resource == 'USER'", "order": 1,
		"requiredAuthenticationMethods": []any{step("API_KEY"), step("SESSION", "API_KEY")}})
	asked := a.submit(session, id, "CREATE_USER_TAG", map[string]any{"userTagName": "Tag", "userIds": []any{}})
	if s := rig.Text(asked.m, "activity", "status"); s != "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED" {
		t.Fatalf("%v", asked)
	}
	approve := map[string]any{"fingerprint": rig.Text(asked.m, "activity", "fingerprint")}
	second, _ := a.login(key, id)
	if got := a.submit(second, id, "APPROVE_ACTIVITY", approve); rig.Text(got.m, "activity", "status") != "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED" {
		t.Errorf("two sessions passed for a key: %v", got)
	}
	if got := a.submit(key, id, "APPROVE_ACTIVITY", approve); rig.Text(got.m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		t.Errorf("%v", got)
	}
}

// readOnly asks for a reader's session.
func (a rateClient) readOnly(key laptop.KeyPair, organization string) string {
	a.t.Helper()
	return rig.Text(a.done(key, organization, "CREATE_READ_ONLY_SESSION", map[string]any{}), "session")
}

func TestReadOnlySessions(t *testing.T) {
	c := clocktest.New()
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c, Organizations: 2})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	user, key := a.user("User")
	sub, subKey := a.sub()
	token, below := a.readOnly(root, id), a.readOnly(subKey, sub)
	for _, op := range []string{"whoami", "list_users", "list_activities", "get_organization", "list_suborgs"} {
		if got := a.reads(token, id, op); got.status != 200 {
			t.Errorf("%s: %v", op, got)
		}
	}
	if got := a.reads(below, sub, "whoami"); got.status != 200 || rig.Text(got.m, "organizationId") != sub {
		t.Errorf("%v", got)
	}
	const unknown = "PUBLIC_KEY_NOT_FOUND"
	a.refuses("one below", a.reads(token, sub, "list_users"), 401, unknown)
	a.refuses("one below, whoami", a.reads(token, sub, "whoami"), 401, unknown)
	a.refuses("one above", a.reads(below, id, "list_users"), 401, unknown)
	a.refuses("one above, whoami", a.reads(below, id, "whoami"), 401, unknown)
	a.refuses("nowhere", a.reads(token, "7c7b6f1c-0000-4000-8000-000000000000", "whoami"), 401, unknown)
	if got := a.reads(token, id, "no_such_query"); got.status != 404 {
		t.Errorf("%v", got)
	}

	// It does nothing.
	for _, typ := range []string{"CREATE_USER_TAG", "STAMP_LOGIN", "CREATE_READ_ONLY_SESSION", "APPROVE_ACTIVITY"} {
		body := a.Body("ACTIVITY_TYPE_"+typ, map[string]any{"userTagName": "x", "userIds": []any{}})
		a.refuses(typ, a.call(wire.EndpointSubmit, strings.ToLower(typ), body, wire.Header{Name: "X-Session", Value: token}), 401, "SIGNATURE_MISSING")
	}
	// One header says who asks.
	body := fmt.Appendf(nil, `{"organizationId":%q}`, id)
	session, stamp := wire.Header{Name: "X-Session", Value: token}, a.stamped(root, body)
	for what, head := range map[string][]wire.Header{
		"session and stamp": {session, stamp}, "stamp and session": {stamp, session}, "two sessions": {session, session},
		"session in another case": {{Name: "x-session", Value: token}, {Name: "x-stamp", Value: "x"}},
		"session and passkey":     {session, {Name: "X-Stamp-WebAuthn", Value: "{}"}}, "session and token": {session, {Name: "X-Stamp-Attested", Value: "{}"}},
	} {
		a.refuses(what, a.call(wire.EndpointQuery, "whoami", body, head...), 401, "SIGNATURE_INVALID", "more than one stamp header")
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
		"another user":    claims(func(m map[string]any) { m["user_id"] = user }),
		"another time":    claims(func(m map[string]any) { m["exp"] = 99999999999 }),
		"another one's":   claims(func(m map[string]any) { m["organization_id"] = sub }),
		"signature of":    parts[0] + "." + parts[1] + "." + strings.Split(below, ".")[2],
		"a bit elsewhere": token[:len(token)-10] + flipped(token[len(token)-10:]),
	} {
		a.refuses(what, a.reads(text, id, "whoami"), 401, "SIGNATURE_INVALID", "could not verify session")
	}
	// Nor does a profile's name make one.
	named := rig.Text(a.done(root, id, "CREATE_SESSION_PROFILE", map[string]any{"sessionProfileName": "SESSION_TYPE_READ_ONLY", "scope": "true"}), "sessionProfileId")
	_, fake := a.login(root, id, "sessionProfileId", named)
	a.refuses("a profile's name", a.reads(fake, id, "whoami"), 401, "SIGNATURE_INVALID")

	// It ends with what asked for it.
	theirs := a.readOnly(key, id)
	_, extra := a.user("Extra")
	lone := a.readOnly(extra, id)
	in, _ := a.login(root, id)
	ofSession := a.readOnly(in, id)
	for _, text := range []string{theirs, lone, ofSession} {
		if got := a.reads(text, id, "whoami"); got.status != 200 {
			t.Errorf("%v", got)
		}
	}
	a.done(root, id, "DELETE_USERS", map[string]any{"userIds": []any{user}})
	a.refuses("of a user who is gone", a.reads(theirs, id, "whoami"), 401, unknown)
	a.login(root, id, "expirationSeconds", "60")
	a.done(root, id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey, "invalidateExisting": true})
	a.refuses("of a session that was ended", a.reads(ofSession, id, "whoami"), 401, unknown)
	a.done(subKey, sub, "DELETE_SUB_ORGANIZATION", map[string]any{"deleteWithoutExport": true})
	a.refuses("of an organization that is gone", a.reads(below, sub, "whoami"), 401, unknown)
	c.Pass(3601 * time.Second)
	a.refuses("expired", a.reads(token, id, "whoami"), 401, "API_KEY_EXPIRED", "expired api key")
}

// A reader comes from where the credential that asked for the session may be used.
func TestReaderAndAllowlist(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	_, key := a.user("User")
	ofRoot, ofUser := a.readOnly(root, id), a.readOnly(key, id)
	list := func(more map[string]any) {
		more["rules"] = []any{map[string]any{"cidr": "192.0.2.0/24", "label": "Office"}}
		a.done(root, id, "SET_IP_ALLOWLIST", more)
	}
	list(map[string]any{"publicKey": root.PublicKey, "onEvaluationError": "ALLOW"})
	list(map[string]any{"enabled": true, "onEvaluationError": "DENY"})
	from := func(token, address string) answered {
		body := fmt.Appendf(nil, `{"organizationId":%q}`, id)
		r, err := a.Link.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointQuery, Op: "whoami", Head: []wire.Header{{Name: "X-Session", Value: token}}, Body: body, From: wire.From{Address: address}})
		if err != nil {
			t.Fatal(err)
		}
		got := answered{status: int(r.Status)}
		if err := json.Unmarshal(r.Body, &got.m); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, token := range []string{ofRoot, ofUser} {
		if got := from(token, "192.0.2.7"); got.status != 200 {
			t.Errorf("%v", got)
		}
		a.refuses("from elsewhere", from(token, "198.51.100.7"), 403, "FORBIDDEN", "not on the IP allowlist")
	}
}

// The allowlist of an organization binds its users below as well, whether they read or
// start log-ins there; users of the sub-organization itself it does not.
func TestAllowlistBindsBelow(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	_, listed := a.user("Listed")
	sub, subKey := a.sub()
	target, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rules := func(cidr string) []any { return []any{map[string]any{"cidr": cidr, "label": "Office"}} }
	a.done(root, id, "SET_IP_ALLOWLIST", map[string]any{"publicKey": listed.PublicKey, "rules": rules("203.0.113.0/24"), "onEvaluationError": "DENY"})
	a.done(root, id, "SET_IP_ALLOWLIST", map[string]any{"enabled": true, "rules": rules("192.0.2.0/24"), "onEvaluationError": "DENY"})
	from := func(key laptop.KeyPair, address string, endpoint wire.Endpoint, op string, body []byte) answered {
		r, err := a.Link.Call(t.Context(), &wire.Call{Endpoint: endpoint, Op: op, Head: []wire.Header{a.stamped(key, body)}, Body: body, From: wire.From{Address: address}})
		if err != nil {
			t.Fatal(err)
		}
		got := answered{status: int(r.Status)}
		if err := json.Unmarshal(r.Body, &got.m); err != nil {
			t.Fatal(err)
		}
		return got
	}
	const office, own, elsewhere, unknown = "192.0.2.7", "203.0.113.7", "198.51.100.7", ""
	for name, ask := range map[string]func(key laptop.KeyPair, address string) answered{
		"a query": func(key laptop.KeyPair, address string) answered {
			return from(key, address, wire.EndpointQuery, "list_wallets", fmt.Appendf(nil, `{"organizationId":%q}`, sub))
		},
		"whoami": func(key laptop.KeyPair, address string) answered {
			return from(key, address, wire.EndpointQuery, "whoami", fmt.Appendf(nil, `{"organizationId":%q}`, sub))
		},
		"a log-in": func(key laptop.KeyPair, address string) answered { // refused later on: nobody has the address
			return from(key, address, wire.EndpointSubmit, "email_auth", a.BodyOf(sub, "ACTIVITY_TYPE_EMAIL_AUTH_V3",
				map[string]any{"email": "nobody@example.org", "targetPublicKey": hex.EncodeToString(target.PublicKey().Bytes()), "emailCustomization": map[string]any{"appName": "App"}}))
		},
		"what is the sub-organization's own": func(key laptop.KeyPair, address string) answered {
			return from(key, address, wire.EndpointSubmit, "create_wallet", a.BodyOf(sub, "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "W", "accounts": []any{}}))
		},
	} {
		for _, c := range []struct {
			key     laptop.KeyPair
			address string
			refused bool
		}{
			{root, office, false}, {root, elsewhere, true}, {root, own, true}, {root, unknown, true},
			{listed, own, false}, {listed, office, true}, {listed, elsewhere, true}, {listed, unknown, true},
			{subKey, elsewhere, false}, {subKey, unknown, false},
		} {
			got := ask(c.key, c.address)
			if bound := strings.Contains(rig.Text(got.m, "message"), "IP allowlist"); bound != c.refused || bound && got.status != 403 {
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
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c})}
	root, id := a.Credentials.RootAPIKey, a.Credentials.OrganizationID
	signUp := func(k laptop.KeyPair) string {
		r := a.done(root, id, "CREATE_SUB_ORGANIZATION_V8", map[string]any{"subOrganizationName": "Sub", "rootQuorumThreshold": 1, "rootUsers": []any{map[string]any{
			"userName": "Root", "authenticators": []any{}, "oauthProviders": []any{},
			"apiKeys": []any{map[string]any{"apiKeyName": "at sign-up", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256", "expirationSeconds": "60"}}}}})
		return rig.Text(r, "subOrganizationId")
	}
	brief := newKey(t)
	sub := signUp(brief)
	k := newKey(t)
	body := a.Body("ACTIVITY_TYPE_STAMP_LOGIN", map[string]any{"publicKey": k.PublicKey})
	got := a.submitBody(brief, "STAMP_LOGIN", body)
	if got.status != 200 || rig.Text(got.m, "activity", "organizationId") != sub {
		t.Fatalf("%v", got)
	}
	if claims := claimsOf(t, rig.Text(got.result(t), "session")); claims["organization_id"] != sub || claims["public_key"] != k.PublicKey {
		t.Errorf("%v", claims)
	}
	if again := a.submitBody(brief, "STAMP_LOGIN", body); rig.Text(again.m, "activity", "id") != rig.Text(got.m, "activity", "id") {
		t.Errorf("%v", again)
	}
	if got := a.ask(k, sub, "whoami"); got.status != 200 {
		t.Errorf("%v", got)
	}
	if got := a.ask(brief, id, "whoami"); got.status != 200 || rig.Text(got.m, "organizationId") != sub {
		t.Errorf("%v", got)
	}
	if got := a.submit(root, id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}); rig.Text(got.m, "activity", "organizationId") != id {
		t.Errorf("a user of the parent: %v", got)
	}
	if got := a.submit(brief, id, "CREATE_READ_ONLY_SESSION", map[string]any{}); got.status != 200 || rig.Text(got.m, "activity", "organizationId") != sub {
		t.Errorf("%v", got)
	}
	// Nothing else looks below, and the key of a session is not looked for.
	const unknown = "PUBLIC_KEY_NOT_FOUND"
	a.refuses("another activity", a.submit(brief, id, "CREATE_READ_WRITE_SESSION_V2", map[string]any{"targetPublicKey": k.PublicKey}), 401, unknown)
	a.refuses("another activity", a.submit(brief, id, "CREATE_USER_TAG", map[string]any{"userTagName": "x", "userIds": []any{}}), 401, unknown)
	a.refuses("another query", a.ask(brief, id, "list_users"), 401, unknown)
	a.refuses("by a session", a.submit(k, id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}), 401, unknown)
	a.refuses("by nobody", a.submit(newKey(t), id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}), 401, unknown)
	a.refuses("by the parent's user below", a.submit(root, sub, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}), 400, "ORGANIZATION_MISMATCH")
	// Two that the parent has given one key: neither is meant, until the key has stamped in one.
	both := newKey(t)
	first := signUp(both)
	signUp(both)
	a.refuses("two", a.submit(both, id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}), 401, "CREDENTIAL_CONFLICT", "more than one suborg")
	if got := a.submit(both, first, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}); got.status != 200 {
		t.Errorf("%v", got)
	}
	for k, want := range map[laptop.KeyPair]string{both: first, brief: sub} {
		signUp(k)
		if got := a.submit(k, id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}); rig.Text(got.m, "activity", "organizationId") != want {
			t.Errorf("a key that has stamped in %s: %v", want, got)
		}
	}
	late := newKey(t)
	signUp(late)
	c.Pass(61 * time.Second)
	a.refuses("expired", a.submit(late, id, "STAMP_LOGIN", map[string]any{"publicKey": newKey(t).PublicKey}), 401, "API_KEY_EXPIRED")
}

// A body that names the parent makes one activity, wherever its key leads later.
func TestOneBodyOneActivity(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	top, root := a.Credentials.OrganizationID, a.Credentials.RootAPIKey
	sub := func(name string, k laptop.KeyPair, more ...any) string {
		keys := []any{map[string]any{"apiKeyName": "k", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}
		return rig.Text(a.done(root, top, "CREATE_SUB_ORGANIZATION_V7", map[string]any{"subOrganizationName": name, "rootQuorumThreshold": 1, "rootUsers": []any{
			map[string]any{"userName": "U", "apiKeys": append(keys, more...), "authenticators": []any{}, "oauthProviders": []any{}}}}), "subOrganizationId")
	}
	again := func(what string, key laptop.KeyPair, typ string, body []byte, first answered) {
		t.Helper()
		got := a.submitBody(key, typ, body)
		if f, g := rig.Text(first.m, "activity", "id"), rig.Text(got.m, "activity", "id"); got.status != first.status || f != g ||
			rig.Text(first.m, "activity", "organizationId") != rig.Text(got.m, "activity", "organizationId") {
			t.Errorf("%s: %v\n%v", what, first, got)
		}
	}
	for _, typ := range []string{"STAMP_LOGIN", "CREATE_READ_ONLY_SESSION"} {
		k, session := newKey(t), newKey(t)
		one := sub("one "+typ, k)
		in := map[string]any{}
		if typ == "STAMP_LOGIN" {
			in["publicKey"] = session.PublicKey
		}
		body := a.Body("ACTIVITY_TYPE_"+typ, in)
		first := a.submitBody(k, typ, body)
		if first.status != 200 || rig.Text(first.m, "activity", "organizationId") != one {
			t.Fatalf("%v", first)
		}
		again("at once", k, typ, body, first)
		two := sub("two "+typ, k)
		again("with another sub-organization", k, typ, body, first)
		a.done(k, one, "DELETE_SUB_ORGANIZATION", map[string]any{"deleteWithoutExport": true})
		again("the first is deleted", k, typ, body, first)
		a.refuses("a session that ended with the first", a.ask(session, two, "whoami"), 401, "PUBLIC_KEY_NOT_FOUND")
		if got := a.submitBody(k, typ, a.Body("ACTIVITY_TYPE_"+typ, in)); got.status != 200 || rig.Text(got.m, "activity", "organizationId") != two {
			t.Errorf("a new body: %v", got)
		}
		// Nor by a user of the parent who has the key then, nor by one below who has it after him.
		a.done(k, two, "DELETE_SUB_ORGANIZATION", map[string]any{"deleteWithoutExport": true})
		adds := map[string]any{"userId": a.Credentials.RootUserID, "apiKeys": []any{map[string]any{"apiKeyName": typ, "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}
		ids := a.done(root, top, "CREATE_API_KEYS_V2", adds)["apiKeyIds"]
		a.refuses("a user of the parent", a.submitBody(k, typ, body), 400, "INVALID_TIME")
		in["publicKey"] = newKey(t).PublicKey
		if typ != "STAMP_LOGIN" {
			delete(in, "publicKey")
		}
		body = a.Body("ACTIVITY_TYPE_"+typ, in)
		if got := a.submitBody(k, typ, body); got.status != 200 || rig.Text(got.m, "activity", "organizationId") != top {
			t.Fatalf("of the parent: %v", got)
		}
		a.done(root, top, "DELETE_API_KEYS", map[string]any{"userId": a.Credentials.RootUserID, "apiKeyIds": ids})
		sub("three "+typ, k)
		a.refuses("below, what was the parent's own", a.submitBody(k, typ, body), 400, "INVALID_TIME")
	}
	// What fails below is known above as well.
	k := newKey(t)
	one := sub("four", k)
	body := a.Body("ACTIVITY_TYPE_STAMP_LOGIN", map[string]any{"publicKey": k.PublicKey})
	first := a.submitBody(k, "STAMP_LOGIN", body)
	again("a failure", k, "STAMP_LOGIN", body, first)
	a.done(k, one, "DELETE_SUB_ORGANIZATION", map[string]any{"deleteWithoutExport": true})
	sub("five", k)
	again("a failure of a deleted one", k, "STAMP_LOGIN", body, first)
	a.refuses("a vote in the parent", a.submit(root, top, "APPROVE_ACTIVITY", map[string]any{"fingerprint": fingerprintOf(body)}), 404, "<nil>", "No activity found")
	// A sub-organization's making is kept where its body points to.
	made := a.BodyOf(top, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", map[string]any{"subOrganizationName": "six", "rootQuorumThreshold": 1, "rootUsers": []any{
		map[string]any{"userName": "U", "apiKeys": []any{map[string]any{"apiKeyName": "k", "publicKey": newKey(t).PublicKey, "curveType": "API_KEY_CURVE_P256"}}, "authenticators": []any{}, "oauthProviders": []any{}}}})
	again("a sign-up", root, "CREATE_SUB_ORGANIZATION_V7", made, a.submitBody(root, "CREATE_SUB_ORGANIZATION_V7", made))
}

func fingerprintOf(body []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(body)) }
