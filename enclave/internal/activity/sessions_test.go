package activity_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/sim/authenticator"
)

// freshP256 is the public key of another client each time, compressed.
func (w *world) freshP256() string {
	k, err := ecdsa.GenerateKey(elliptic.P256(), w.rand)
	w.must(err)
	return hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), k.X, k.Y))
}

// told verifies the token in a result.
func (w *world) told(r object) *login.Session {
	w.t.Helper()
	s, err := login.VerifySession(r["session"].(string), w.sessions.Public(), w.now)
	w.must(err)
	return s
}

// keyOf is the key of a user by its public half, nil if there is none.
func keyOf(w *world, user, public string) *org.APIKey {
	u := userOf(w, user)
	i := slices.IndexFunc(u.APIKeys, func(k org.APIKey) bool { return k.PublicKey == public })
	c, err := w.tx().Credential("API_KEY_CURVE_P256", public)
	w.must(err)
	if (c != nil) != (i >= 0) || c != nil && (c.User != u.ID || c.Key != u.APIKeys[i].ID) {
		w.t.Errorf("%s: record %d, index %+v", public, i, c)
	}
	if i < 0 {
		return nil
	}
	return &u.APIKeys[i]
}

func (w *world) profile(name string, scope, seconds string) string {
	in := object{"sessionProfileName": name, "scope": scope}
	if seconds != "" {
		in["expirationSeconds"] = seconds
	}
	return w.run("CREATE_SESSION_PROFILE", in)["sessionProfileId"].(string)
}

func TestStampLogin(t *testing.T) {
	w := newWorld(t)
	short := w.profile("Short", "activity.action == 'SIGN' && activity.type != 'é>?~'", "600")
	plain := w.profile("SESSION_TYPE_READ_ONLY", "true", "")
	for _, c := range []struct {
		seconds any
		profile string
		life    uint64
	}{
		{nil, "", 900}, {"", "", 900}, {"1", "", 1}, {"2592000", "", 2592000}, {nil, short, 600}, {"60", short, 60}, {"601", short, 600},
		{nil, plain, 900}, {"86400", plain, 86400},
	} {
		public := w.freshP256()
		in := object{"publicKey": strings.ToUpper(public)}
		if c.seconds != nil {
			in["expirationSeconds"] = c.seconds
		}
		if c.profile != "" {
			in["sessionProfileId"] = c.profile
		}
		s := w.told(w.run("STAMP_LOGIN", in))
		want := login.Session{ExpiresMs: w.now + 1000*c.life, PublicKey: public, Type: login.ReadWrite, UserID: w.root, OrganizationID: w.id.String()}
		switch c.profile {
		case short:
			want.Type, want.ProfileID, want.Scope = "Short", short, "activity.action == 'SIGN' && activity.type != 'é>?~'"
		case plain:
			want.Type, want.ProfileID, want.Scope = login.ReadOnly, plain, "true"
		}
		if *s != want || s.Reads() {
			t.Errorf("%+v, want %+v", s, want)
		}
		k := keyOf(w, w.root, public)
		if k == nil || k.Type != "CREDENTIAL_TYPE_LOGIN" || k.ExpirationSeconds != c.life || k.CreatedMs != w.now || (c.profile != "") == k.Profile.Zero() {
			t.Errorf("%+v", k)
		}
	}
}

func TestStampLoginRefuses(t *testing.T) {
	w := newWorld(t)
	other := newWorld(t)
	other.rand = w.rand
	foreign := other.profile("Other", "true", "")
	sub := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, rootUser("Root", apiKey("r", w.freshKey()))))["subOrganizationId"])
	taken := w.freshP256()
	newUser(w, user("Other", object{"apiKeyName": "k", "publicKey": taken, "curveType": "API_KEY_CURVE_P256"}))
	theirs := w.freshP256()
	them := newUser(w, user("Third", apiKey("k", w.freshKey())))
	w.user = mustID(them)
	w.run("STAMP_LOGIN", object{"publicKey": theirs})
	w.user = mustID(w.root)
	long := w.profile("Long", "activity.type != '"+strings.Repeat("~", 3000)+"'", "")
	good := w.freshP256()
	for _, c := range []struct {
		in   object
		code int
		says string
	}{
		{object{}, 3, "invalid public key"},
		{object{"publicKey": ""}, 3, "invalid public key"},
		{object{"publicKey": good[:64]}, 3, "invalid public key"},
		{object{"publicKey": "0x" + good[2:]}, 3, "publicKey"},
		{object{"publicKey": good + "00"}, 3, "invalid public key"},
		{object{"publicKey": "02" + strings.Repeat("ff", 32)}, 3, "not a point"},
		{object{"publicKey": "04" + strings.Repeat("11", 64)}, 3, "invalid public key"},
		{object{"publicKey": "02" + strings.Repeat("00", 31) + "07"}, 3, "not a point"}, // no x of P-256
		{object{"publicKey": strings.Repeat("00", 32)}, 3, "invalid public key"},        // ed25519
		{object{"publicKey": someP256}, 3, "must be unique"},                            // a long-lived key of the caller's
		{object{"publicKey": taken}, 3, "must be unique"},                               // of another user
		{object{"publicKey": theirs}, 3, "must be unique"},                              // another user's session
		{object{"publicKey": good, "expirationSeconds": "0"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "-1"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "1.5"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "2592001"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "18446744073709551616"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "sessionProfileId": "Long"}, 3, "must be a UUID"},
		{object{"publicKey": good, "sessionProfileId": someID}, 5, "session profile not found"},
		{object{"publicKey": good, "sessionProfileId": foreign}, 5, "session profile not found"},
		{object{"publicKey": good, "sessionProfileId": long}, 3, "too long for the token"},
		{object{"publicKey": good, "userId": w.root}, 3, "userId"},
	} {
		_, err := w.try("STAMP_LOGIN", c.in)
		if int(code(err)) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v: %v", c.in, err)
		}
	}
	if keyOf(w, w.root, good) != nil {
		t.Error("a refused log-in left a key")
	}
	// A sub-organization has the profiles of its parent, which its own id is not.
	mine := w.profile("Mine", "true", "60")
	sub.run("STAMP_LOGIN", object{"publicKey": good, "sessionProfileId": mine})
	sub.refused("STAMP_LOGIN", object{"publicKey": w.freshP256(), "sessionProfileId": foreign}, 5, "session profile not found")
	// An id of a key that is gone cannot be stamped with, but a user may be gone.
	w.user = w.newID()
	w.refused("STAMP_LOGIN", object{"publicKey": w.freshP256()}, 5, "user not found")
}

// Of a user's expiring keys ten live: an expired one and then the oldest goes.
func TestSessionsMakeRoom(t *testing.T) {
	w := newWorld(t)
	var made []string
	for i := range 10 {
		w.now += 1000
		public := w.freshP256()
		in := object{"publicKey": public}
		if i == 4 {
			in["expirationSeconds"] = "5"
		}
		w.run("STAMP_LOGIN", in)
		made = append(made, public)
	}
	w.now += 10_000
	next := w.freshP256()
	w.run("STAMP_LOGIN", object{"publicKey": next})
	if keyOf(w, w.root, made[4]) != nil || keyOf(w, w.root, made[0]) == nil {
		t.Error("not the expired one made room")
	}
	w.run("STAMP_LOGIN", object{"publicKey": w.freshP256()})
	if keyOf(w, w.root, made[0]) != nil || keyOf(w, w.root, made[1]) == nil || keyOf(w, w.root, next) == nil {
		t.Error("not the oldest made room")
	}
	if n := len(userOf(w, w.root).APIKeys); n != 11 || keyOf(w, w.root, someP256) == nil {
		t.Errorf("%d keys", n)
	}
	// The same key again is the same session, renewed: nothing else goes.
	w.now += 1000
	before := keyOf(w, w.root, next).ID
	w.run("STAMP_LOGIN", object{"publicKey": next, "expirationSeconds": "7"})
	if k := keyOf(w, w.root, next); k.ID == before || k.ExpirationSeconds != 7 || k.CreatedMs != w.now || keyOf(w, w.root, made[1]) == nil {
		t.Errorf("%+v", k)
	}
	// All others end.
	rw := w.run("CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": someP256})["apiKeyId"]
	last := w.freshP256()
	w.run("STAMP_LOGIN", object{"publicKey": last, "invalidateExisting": true})
	u := userOf(w, w.root)
	if len(u.APIKeys) != 3 || u.APIKeys[0].PublicKey != someP256 || u.APIKeys[1].ID.String() != rw || u.APIKeys[2].PublicKey != last {
		t.Errorf("%+v", u.APIKeys)
	}
}

// From where the key of a session may be used outlives its renewal.
func TestRenewedSessionKeepsItsAllowlist(t *testing.T) {
	w := newWorld(t)
	public := w.freshP256()
	w.run("STAMP_LOGIN", object{"publicKey": public})
	alter(w, func(tx *org.Tx) {
		w.must(tx.PutAllowlist(public, &org.Allowlist{Rules: []org.AllowlistRule{{CIDR: "10.0.0.0/24"}}}))
	})
	listed := func() bool {
		l, err := w.tx().Allowlist(public)
		w.must(err)
		return l != nil
	}
	w.run("STAMP_LOGIN", object{"publicKey": public, "invalidateExisting": true})
	if !listed() {
		t.Error("renewed without its allowlist")
	}
	w.run("STAMP_LOGIN", object{"publicKey": w.freshP256(), "invalidateExisting": true})
	if listed() {
		t.Error("an allowlist of a session that ended")
	}
}

// What a bounded session starts is bounded the same.
func TestBoundedSessionsStayBounded(t *testing.T) {
	w := newWorld(t)
	one, two := w.profile("One", "true", "60"), w.profile("Two", "true", "60")
	public := w.freshP256()
	w.run("STAMP_LOGIN", object{"publicKey": public, "sessionProfileId": one})
	c := activity.APIKeyCredential(keyOf(w, w.root, public))
	w.stamped = &c
	w.refused("STAMP_LOGIN", object{"publicKey": w.freshP256(), "sessionProfileId": two}, 3, "of the same profile only")
	next := w.freshP256()
	if s := w.told(w.run("STAMP_LOGIN", object{"publicKey": next, "expirationSeconds": "3600"})); s.ProfileID != one || s.Scope != "true" || s.ExpiresMs != w.now+60_000 {
		t.Errorf("%+v", s)
	}
	if s := w.told(w.run("STAMP_LOGIN", object{"publicKey": public})); s.ProfileID != one { // renewed by itself
		t.Errorf("%+v", s)
	}
	id := w.run("CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": someP256})["apiKeyId"]
	for _, k := range userOf(w, w.root).APIKeys[1:] {
		if k.Profile.String() != one || k.ExpirationSeconds > 60 {
			t.Errorf("%+v", k)
		}
	}
	if len(userOf(w, w.root).APIKeys) != 4 || id == nil {
		t.Error("not all sessions are there")
	}
}

// By no mail, code, token or credential does a bounded session lead to one that is not.
func TestBoundedSessionsLeadNowhereElse(t *testing.T) {
	w := mailWorld(t)
	google := newIssuer(w, "https://accounts.google.com")
	one, two := w.profile("One", "true", "60"), w.profile("Two", "true", "60")
	s := mailSub(w, object{"userEmail": mailbox, "userPhoneNumber": phone})
	s.run("CREATE_OAUTH_PROVIDERS", object{"userId": s.root, "oauthProviders": []any{byToken(google.token("me", "web"))}})
	bounded := func(profile string) {
		public := w.freshP256()
		s.stamped = nil
		s.run("STAMP_LOGIN", object{"publicKey": public, "sessionProfileId": profile})
		c := activity.APIKeyCredential(keyOf(s, s.root, public))
		s.stamped = &c
	}
	bounded(one)
	private, to := w.keyPair()
	passkey, _ := w.aPasskey(authenticator.None)
	for typ, in := range map[string]func() object{
		"EMAIL_AUTH_V3": func() object {
			return object{"email": mailbox, "targetPublicKey": to, "emailCustomization": object{"appName": "App"}}
		},
		"OTP_AUTH": func() object {
			return object{"otpId": s.run("INIT_OTP_AUTH_V3", byMail())["otpId"], "otpCode": s.code(), "targetPublicKey": to}
		},
		"CREATE_READ_WRITE_SESSION_V2": func() object { return object{"targetPublicKey": to} },
		"OAUTH": func() object {
			return object{"oidcToken": google.token("me", "web", boundTo(to)), "targetPublicKey": to}
		},
	} {
		r := s.run(typ, in())
		bundle := r["credentialBundle"]
		if typ == "EMAIL_AUTH_V3" {
			bundle = s.mailed()
		}
		if k := keyOf(s, s.root, w.publicOf(private, bundle)); k == nil || k.Profile.String() != one || k.ExpirationSeconds > 60 {
			t.Errorf("%s: %+v", typ, k)
		}
	}
	// A token that a bounded session got starts sessions bounded alike, whoever shows it.
	c := w.client()
	tok, id := s.token(varied(byMail(), "contact", strings.ToUpper(mailbox)), c)
	session := w.freshP256()
	in := object{"verificationToken": tok, "publicKey": session, "clientSignature": w.signs(c, loginMessage(session, id))}
	bounded(two)
	s.refused("OTP_LOGIN_V2", in, 7, "another profile")
	s.stamped = nil
	s.run("OTP_LOGIN_V2", in)
	if k := keyOf(s, s.root, session); k == nil || k.Profile.String() != one {
		t.Errorf("by a token: %+v", k)
	}
	bounded(one)
	for _, x := range []struct {
		typ string
		in  object
	}{
		{"INIT_USER_EMAIL_RECOVERY_V2", object{"email": mailbox, "targetPublicKey": to, "emailCustomization": object{"appName": "App"}}},
		{"CREATE_API_KEYS_V2", object{"userId": s.root, "apiKeys": []any{apiKey("new", w.freshKey())}}},
		{"CREATE_AUTHENTICATORS_V2", passkeys(s.root, w.params(passkey, authenticator.None))},
		{"CREATE_OAUTH_PROVIDERS", object{"userId": s.root, "oauthProviders": []any{byToken(google.token("another", "web"))}}},
		{"UPDATE_USER_EMAIL", object{"userId": s.root, "userEmail": "b@example.org"}},
		{"UPDATE_USER_PHONE_NUMBER", object{"userId": s.root, "userPhoneNumber": "+15005550009"}},
		{"UPDATE_USER", object{"userId": s.root, "userEmail": "c@example.org"}},
	} {
		s.refused(x.typ, x.in, 7, "a session with a profile gives users no credential")
		was := s.stamped
		s.stamped = nil
		s.run(x.typ, x.in) // by a key it is no matter of profiles
		s.stamped = was
	}
	// What leads nowhere is as before.
	s.run("UPDATE_USER", object{"userId": s.root, "userName": "Another"})
	s.run("UPDATE_USER_EMAIL", object{"userId": s.root, "userEmail": ""})
	s.run("CREATE_USERS_V4", object{"users": []any{object{"userName": "New", "apiKeys": []any{apiKey("n", w.freshKey())}, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}}})
}

func TestReadOnlySession(t *testing.T) {
	w := newWorld(t)
	r := w.run("CREATE_READ_ONLY_SESSION", object{})
	s := w.told(r)
	if !s.Reads() || s.PublicKey != someP256 || s.UserID != w.root || s.OrganizationID != w.id.String() || s.ExpiresMs != w.now+3600_000 {
		t.Errorf("%+v", s)
	}
	if r["organizationName"] != "Top" || r["username"] != "Root" || r["userId"] != w.root || r["organizationId"] != w.id.String() ||
		r["sessionExpiry"] != strconv.FormatUint(s.ExpiresMs/1000, 10) {
		t.Errorf("%v", r)
	}
	if len(userOf(w, w.root).APIKeys) != 1 {
		t.Error("a reader's session has a key")
	}
	// It does not outlive the credential that asks for it.
	public := w.freshP256()
	w.run("STAMP_LOGIN", object{"publicKey": public, "expirationSeconds": "100"})
	c := activity.APIKeyCredential(keyOf(w, w.root, public))
	w.stamped, w.now = &c, w.now+40_000
	if s := w.told(w.run("CREATE_READ_ONLY_SESSION", object{})); s.ExpiresMs != w.now+60_000 || s.PublicKey != public {
		t.Errorf("%+v", s)
	}
	w.now += 60_000
	w.refused("CREATE_READ_ONLY_SESSION", object{}, 9, "is gone")
	w.stamped = &org.VoteCredential{PublicKey: w.freshP256()}
	w.refused("CREATE_READ_ONLY_SESSION", object{}, 9, "is gone")
	w.stamped = &org.VoteCredential{}
	w.refused("CREATE_READ_ONLY_SESSION", object{}, 9, "is gone")
	// A passkey's is by its public key.
	u := user("Passkey")
	u["authenticators"] = []any{passkeyOf(w, "p")}
	w.user = mustID(newUser(w, u))
	a := &userOf(w, w.user.String()).Authenticators[0]
	c = activity.PasskeyCredential(a)
	w.stamped = &c
	if s := w.told(w.run("CREATE_READ_ONLY_SESSION", object{})); s.PublicKey != hex.EncodeToString(a.PublicKey) || s.UserID != w.user.String() {
		t.Errorf("%+v", s)
	}
}

// opened is the private key in a credential bundle.
func (w *world) opened(private secret.Secret, text any) *ecdh.PrivateKey {
	w.t.Helper()
	m, err := bundle.ParseCompact(text.(string))
	w.must(err)
	s, err := m.Open(private)
	w.must(err)
	var k *ecdh.PrivateKey
	s.Use(func(b []byte) { k, err = ecdh.P256().NewPrivateKey(b) })
	w.must(err)
	return k
}

func TestReadWriteSession(t *testing.T) {
	w := newWorld(t)
	private, err := bundle.NewPrivateKey(w.rand)
	w.must(err)
	var target []byte
	private.Use(func(b []byte) {
		k, kerr := ecdh.P256().NewPrivateKey(b)
		w.must(kerr)
		target = k.PublicKey().Bytes()
	})
	to := hex.EncodeToString(target)
	u := user("User", apiKey("k", w.freshKey()))
	u["userEmail"] = "User@Example.org"
	other := newUser(w, u)
	for _, c := range []struct {
		typ  string
		in   object
		user string
		name string
		life uint64
	}{
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to}, w.root, "Read write session", 900},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "userId": "", "apiKeyName": "", "expirationSeconds": ""}, w.root, "Read write session", 900},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "userId": other, "apiKeyName": "Mine", "expirationSeconds": "60"}, other, "Mine", 60},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "user@example.org", "apiKeyName": "Old"}, other, "Old", 900},
	} {
		r := w.run(c.typ, c.in)
		k := w.opened(private, r["credentialBundle"]).PublicKey().Bytes()
		public := hex.EncodeToString(append([]byte{2 | k[64]&1}, k[1:33]...))
		rec := keyOf(w, c.user, public)
		if rec == nil || rec.ID.String() != r["apiKeyId"] || rec.Name != c.name || rec.ExpirationSeconds != c.life || rec.Type != "CREDENTIAL_TYPE_READ_WRITE_SESSION_KEY_P256" {
			t.Fatalf("%v: %+v", r, rec)
		}
		if r["userId"] != c.user || r["username"] != userOf(w, c.user).Name || r["organizationId"] != w.id.String() || r["organizationName"] != "Top" {
			t.Errorf("%v", r)
		}
	}
	// Two of other's; the log-in sessions stay.
	w.run("STAMP_LOGIN", object{"publicKey": w.freshP256()})
	w.run("CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "invalidateExisting": true})
	if n := len(userOf(w, w.root).APIKeys); n != 3 {
		t.Errorf("%d keys of the caller", n)
	}
	if n := len(userOf(w, other).APIKeys); n != 3 {
		t.Errorf("%d keys of the other user", n)
	}
	same := user("Twin", apiKey("k", w.freshKey()))
	same["userEmail"] = "user@example.ORG"
	newUser(w, same)
	for _, c := range []struct {
		typ  string
		in   object
		code int
		says string
	}{
		{"CREATE_READ_WRITE_SESSION_V2", object{}, 3, "targetPublicKey"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to[2:]}, 3, "invalid public key"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": "04" + strings.Repeat("11", 64)}, 3, "not a point"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": "02" + strings.Repeat("00", 31) + "07"}, 3, "not a point"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "userId": "me"}, 3, "userId"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "userId": someID}, 5, "user not found"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "email": "user@example.org"}, 3, "email"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "expirationSeconds": "2592001"}, 3, "must be a number of seconds, 1 to 2592000"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "apiKeyName": " x"}, 3, "apiKeyName"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to}, 3, "email"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "nobody@example.org"}, 5, "user with email not found"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "user@example.org"}, 3, "more than one user"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "user@example.org", "invalidateExisting": true}, 3, "invalidateExisting"},
	} {
		_, err := w.try(c.typ, c.in)
		if int(code(err)) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v: %v", c.in, err)
		}
	}
}

// Everybody starts sessions of their own; for another that is no self-service.
func TestSessionsAreSelfService(t *testing.T) {
	w := newWorld(t)
	u := user("User", apiKey("k", w.freshKey()))
	u["userEmail"] = "user@example.org"
	id := newUser(w, u)
	for _, c := range []struct {
		typ  string
		in   object
		self bool
	}{
		{"STAMP_LOGIN", object{"publicKey": someP256}, true},
		{"CREATE_READ_ONLY_SESSION", object{}, true},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": someP256}, true},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": someP256, "userId": id}, true},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": someP256, "userId": w.root}, false},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": someP256, "userId": someID}, false},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": someP256, "email": "user@example.org"}, true},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": someP256, "email": "other@example.org"}, false},
	} {
		typ := "ACTIVITY_TYPE_" + c.typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.must(err)
		in, err := v.Decode(text(c.in))
		w.must(err)
		q, err := v.Question(w.tx(), in, w.newID(), mustID(id), false)
		w.must(err)
		if q.Self != c.self || q.RootQuorum || q.Foreign {
			t.Errorf("%s %v: %+v", typ, c.in, q)
		}
	}
}

// BenchmarkStampLogin is a whole log-in but for the stamp and the store; bare is the
// signature of its token alone.
func BenchmarkStampLogin(b *testing.B) {
	w := newWorld(b)
	public := w.freshP256()
	v, err := kinds.Live.Lookup("stamp_login", "ACTIVITY_TYPE_STAMP_LOGIN")
	w.must(err)
	b.Run("activity", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			in, err := v.Decode(text(object{"publicKey": public}))
			w.must(err)
			_, err = v.Run(&activity.Tx{Tx: w.tx(), Rand: w.rand, User: w.user, Sessions: w.sessions, Stamped: w.credential()}, in)
			w.must(err)
		}
	})
	b.Run("bare", func(b *testing.B) {
		s := &login.Session{ExpiresMs: w.now, PublicKey: public, Type: login.ReadWrite, UserID: w.root, OrganizationID: w.id.String()}
		for b.Loop() {
			_, err := login.IssueSession(w.sessions, s)
			w.must(err)
		}
	})
}
