package auth_test

import (
	"crypto/ecdh"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/sim/authenticator"
)

// told verifies the token in a result.
func told(w *world, r object) *login.Session {
	w.TB.Helper()
	s, err := login.VerifySession(r["session"].(string), w.Sessions.Public(), w.Now)
	w.Must(err)
	return s
}

// keyOf is the key of a user by its public half, nil if there is none.
func keyOf(w *world, user, public string) *org.APIKey {
	u := w.UserOf(user)
	i := slices.IndexFunc(u.APIKeys, func(k org.APIKey) bool { return k.PublicKey == public })
	c, err := w.Tx().Credential("API_KEY_CURVE_P256", public)
	w.Must(err)
	if (c != nil) != (i >= 0) || c != nil && (c.User != u.ID || c.Key != u.APIKeys[i].ID) {
		w.TB.Errorf("%s: record %d, index %+v", public, i, c)
	}
	if i < 0 {
		return nil
	}
	return &u.APIKeys[i]
}

func newProfile(w *world, name string, scope, seconds string) string {
	in := object{"sessionProfileName": name, "scope": scope}
	if seconds != "" {
		in["expirationSeconds"] = seconds
	}
	return w.Run("CREATE_SESSION_PROFILE", in)["sessionProfileId"].(string)
}

func TestStampLogin(t *testing.T) {
	w := activitytest.New(t)
	short := newProfile(w, "Short", "activity.action == 'SIGN' && activity.type != 'é>?~'", "600")
	plain := newProfile(w, "SESSION_TYPE_READ_ONLY", "true", "")
	for _, c := range []struct {
		seconds any
		profile string
		life    uint64
	}{
		{nil, "", 900}, {"", "", 900}, {"1", "", 1}, {"2592000", "", 2592000}, {nil, short, 600}, {"60", short, 60}, {"601", short, 600},
		{nil, plain, 900}, {"86400", plain, 86400},
	} {
		public := w.FreshP256()
		in := object{"publicKey": strings.ToUpper(public)}
		if c.seconds != nil {
			in["expirationSeconds"] = c.seconds
		}
		if c.profile != "" {
			in["sessionProfileId"] = c.profile
		}
		s := told(w, w.Run("STAMP_LOGIN", in))
		want := login.Session{ExpiresMs: w.Now + 1000*c.life, PublicKey: public, Type: login.ReadWrite, UserID: w.Root, OrganizationID: w.ID.String()}
		switch c.profile {
		case short:
			want.Type, want.ProfileID, want.Scope = "Short", short, "activity.action == 'SIGN' && activity.type != 'é>?~'"
		case plain:
			want.Type, want.ProfileID, want.Scope = login.ReadOnly, plain, "true"
		}
		if *s != want || s.Reads() {
			t.Errorf("%+v, want %+v", s, want)
		}
		k := keyOf(w, w.Root, public)
		if k == nil || k.Type != "CREDENTIAL_TYPE_LOGIN" || k.ExpirationSeconds != c.life || k.CreatedMs != w.Now || (c.profile != "") == k.Profile.Zero() {
			t.Errorf("%+v", k)
		}
	}
}

func TestStampLoginRefuses(t *testing.T) {
	w := activitytest.New(t)
	other := activitytest.New(t)
	other.Rand = w.Rand
	foreign := newProfile(other, "Other", "true", "")
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	taken := w.FreshP256()
	w.NewUser(activitytest.User("Other", object{"apiKeyName": "k", "publicKey": taken, "curveType": "API_KEY_CURVE_P256"}))
	theirs := w.FreshP256()
	them := w.NewUser(activitytest.User("Third", activitytest.APIKey("k", w.FreshKey())))
	w.User = activitytest.MustID(them)
	w.Run("STAMP_LOGIN", object{"publicKey": theirs})
	w.User = activitytest.MustID(w.Root)
	long := newProfile(w, "Long", "activity.type != '"+strings.Repeat("~", 3000)+"'", "")
	good := w.FreshP256()
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
		{object{"publicKey": activitytest.SomeP256}, 3, "must be unique"},               // a long-lived key of the caller's
		{object{"publicKey": taken}, 3, "must be unique"},                               // of another user
		{object{"publicKey": theirs}, 3, "must be unique"},                              // another user's session
		{object{"publicKey": good, "expirationSeconds": "0"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "-1"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "1.5"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "2592001"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "expirationSeconds": "18446744073709551616"}, 3, "must be a number of seconds, 1 to 2592000"},
		{object{"publicKey": good, "sessionProfileId": "Long"}, 3, "must be a UUID"},
		{object{"publicKey": good, "sessionProfileId": "00000000-0000-0000-0000-000000000000"}, 3, "sessionProfileId must be a UUID and must not be all zeros"},
		{object{"publicKey": good, "sessionProfileId": activitytest.SomeID}, 5, "session profile not found"},
		{object{"publicKey": good, "sessionProfileId": foreign}, 5, "session profile not found"},
		{object{"publicKey": good, "sessionProfileId": long}, 3, "too long for the token"},
		{object{"publicKey": good, "userId": w.Root}, 3, "userId"},
	} {
		_, err := w.Try("STAMP_LOGIN", c.in)
		if int(activitytest.Code(err)) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v: %v", c.in, err)
		}
	}
	if keyOf(w, w.Root, good) != nil {
		t.Error("a refused log-in left a key")
	}
	// A sub-organization has the profiles of its parent, which its own id is not.
	mine := newProfile(w, "Mine", "true", "60")
	sub.Run("STAMP_LOGIN", object{"publicKey": good, "sessionProfileId": mine})
	sub.Refuse("STAMP_LOGIN", object{"publicKey": w.FreshP256(), "sessionProfileId": foreign}, 5, "session profile not found")
	// An id of a key that is gone cannot be stamped with, but a user may be gone.
	w.User = w.NewID()
	w.Refuse("STAMP_LOGIN", object{"publicKey": w.FreshP256()}, 5, "user not found")
}

// Of a user's expiring keys ten live: an expired one and then the oldest goes.
func TestOldestSessionsAreDropped(t *testing.T) {
	w := activitytest.New(t)
	var made []string
	for i := range 10 {
		w.Now += 1000
		public := w.FreshP256()
		in := object{"publicKey": public}
		if i == 4 {
			in["expirationSeconds"] = "5"
		}
		w.Run("STAMP_LOGIN", in)
		made = append(made, public)
	}
	w.Now += 10_000
	next := w.FreshP256()
	w.Run("STAMP_LOGIN", object{"publicKey": next})
	if keyOf(w, w.Root, made[4]) != nil || keyOf(w, w.Root, made[0]) == nil {
		t.Error("not the expired one made room")
	}
	w.Run("STAMP_LOGIN", object{"publicKey": w.FreshP256()})
	if keyOf(w, w.Root, made[0]) != nil || keyOf(w, w.Root, made[1]) == nil || keyOf(w, w.Root, next) == nil {
		t.Error("not the oldest made room")
	}
	if n := len(w.UserOf(w.Root).APIKeys); n != 11 || keyOf(w, w.Root, activitytest.SomeP256) == nil {
		t.Errorf("%d keys", n)
	}
	// The same key again is the same session, renewed: nothing else goes.
	w.Now += 1000
	before := keyOf(w, w.Root, next).ID
	w.Run("STAMP_LOGIN", object{"publicKey": next, "expirationSeconds": "7"})
	if k := keyOf(w, w.Root, next); k.ID == before || k.ExpirationSeconds != 7 || k.CreatedMs != w.Now || keyOf(w, w.Root, made[1]) == nil {
		t.Errorf("%+v", k)
	}
	// All others end.
	rw := w.Run("CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": activitytest.SomeP256})["apiKeyId"]
	last := w.FreshP256()
	w.Run("STAMP_LOGIN", object{"publicKey": last, "invalidateExisting": true})
	u := w.UserOf(w.Root)
	if len(u.APIKeys) != 3 || u.APIKeys[0].PublicKey != activitytest.SomeP256 || u.APIKeys[1].ID.String() != rw || u.APIKeys[2].PublicKey != last {
		t.Errorf("%+v", u.APIKeys)
	}
}

// From where the key of a session may be used outlives its renewal.
func TestRenewedSessionKeepsItsAllowlist(t *testing.T) {
	w := activitytest.New(t)
	public := w.FreshP256()
	w.Run("STAMP_LOGIN", object{"publicKey": public})
	w.Alter(func(tx *org.Tx) {
		w.Must(tx.PutAllowlist(public, &org.Allowlist{Rules: []org.AllowlistRule{{CIDR: "10.0.0.0/24"}}}))
	})
	listed := func() bool {
		l, err := w.Tx().Allowlist(public)
		w.Must(err)
		return l != nil
	}
	w.Run("STAMP_LOGIN", object{"publicKey": public, "invalidateExisting": true})
	if !listed() {
		t.Error("renewed without its allowlist")
	}
	w.Run("STAMP_LOGIN", object{"publicKey": w.FreshP256(), "invalidateExisting": true})
	if listed() {
		t.Error("an allowlist of a session that ended")
	}
}

// What a bounded session starts is bounded the same.
func TestBoundedSessionsStayBounded(t *testing.T) {
	w := activitytest.New(t)
	one, two := newProfile(w, "One", "true", "60"), newProfile(w, "Two", "true", "60")
	public := w.FreshP256()
	w.Run("STAMP_LOGIN", object{"publicKey": public, "sessionProfileId": one})
	c := activity.APIKeyCredential(keyOf(w, w.Root, public))
	w.Stamped = &c
	w.Refuse("STAMP_LOGIN", object{"publicKey": w.FreshP256(), "sessionProfileId": two}, 3, "of the same profile only")
	next := w.FreshP256()
	if s := told(w, w.Run("STAMP_LOGIN", object{"publicKey": next, "expirationSeconds": "3600"})); s.ProfileID != one || s.Scope != "true" || s.ExpiresMs != w.Now+60_000 {
		t.Errorf("%+v", s)
	}
	if s := told(w, w.Run("STAMP_LOGIN", object{"publicKey": public})); s.ProfileID != one { // renewed by itself
		t.Errorf("%+v", s)
	}
	id := w.Run("CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": activitytest.SomeP256})["apiKeyId"]
	for _, k := range w.UserOf(w.Root).APIKeys[1:] {
		if k.Profile.String() != one || k.ExpirationSeconds > 60 {
			t.Errorf("%+v", k)
		}
	}
	if len(w.UserOf(w.Root).APIKeys) != 4 || id == nil {
		t.Error("not all sessions are there")
	}
}

// By no mail, code, token or credential does a bounded session lead to one that is not.
func TestBoundedSessionsLeadNowhereElse(t *testing.T) {
	w := mailWorld(t)
	google := w.NewIssuer("https://accounts.google.com")
	one, two := newProfile(w, "One", "true", "60"), newProfile(w, "Two", "true", "60")
	s := mailSub(w, object{"userEmail": mailbox, "userPhoneNumber": phone})
	s.Run("CREATE_OAUTH_PROVIDERS", object{"userId": s.Root, "oauthProviders": []any{activitytest.ByToken(google.Token("me", "web"))}})
	bounded := func(profile string) {
		public := w.FreshP256()
		s.Stamped = nil
		s.Run("STAMP_LOGIN", object{"publicKey": public, "sessionProfileId": profile})
		c := activity.APIKeyCredential(keyOf(s, s.Root, public))
		s.Stamped = &c
	}
	bounded(one)
	private, to := keyPair(w)
	passkey, _ := w.NewPasskey(authenticator.None)
	for typ, in := range map[string]func() object{
		"EMAIL_AUTH_V3": func() object {
			return object{"email": mailbox, "targetPublicKey": to, "emailCustomization": object{"appName": "App"}}
		},
		"OTP_AUTH": func() object {
			return object{"otpId": s.Run("INIT_OTP_AUTH_V3", byMail())["otpId"], "otpCode": codeOf(s), "targetPublicKey": to}
		},
		"CREATE_READ_WRITE_SESSION_V2": func() object { return object{"targetPublicKey": to} },
		"OAUTH": func() object {
			return object{"oidcToken": google.Token("me", "web", activitytest.BoundTo(to)), "targetPublicKey": to}
		},
	} {
		r := s.Run(typ, in())
		bundle := r["credentialBundle"]
		if typ == "EMAIL_AUTH_V3" {
			bundle = mailedBundle(s)
		}
		if k := keyOf(s, s.Root, publicOf(w, private, bundle)); k == nil || k.Profile.String() != one || k.ExpirationSeconds > 60 {
			t.Errorf("%s: %+v", typ, k)
		}
	}
	// A token that a bounded session got starts sessions bounded alike, whoever shows it.
	c := newClient(w)
	tok, id := tokenFor(s, varied(byMail(), "contact", strings.ToUpper(mailbox)), c)
	session := w.FreshP256()
	in := object{"verificationToken": tok, "publicKey": session, "clientSignature": signs(w, c, loginMessage(session, id))}
	bounded(two)
	s.Refuse("OTP_LOGIN_V2", in, 7, "another profile")
	s.Stamped = nil
	s.Run("OTP_LOGIN_V2", in)
	if k := keyOf(s, s.Root, session); k == nil || k.Profile.String() != one {
		t.Errorf("by a token: %+v", k)
	}
	bounded(one)
	for _, x := range []struct {
		typ string
		in  object
	}{
		{"INIT_USER_EMAIL_RECOVERY_V2", object{"email": mailbox, "targetPublicKey": to, "emailCustomization": object{"appName": "App"}}},
		{"CREATE_API_KEYS_V2", object{"userId": s.Root, "apiKeys": []any{activitytest.APIKey("new", w.FreshKey())}}},
		{"CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, w.PasskeyParams(passkey, authenticator.None))},
		{"CREATE_OAUTH_PROVIDERS", object{"userId": s.Root, "oauthProviders": []any{activitytest.ByToken(google.Token("another", "web"))}}},
		{"UPDATE_USER_EMAIL", object{"userId": s.Root, "userEmail": "b@example.org"}},
		{"UPDATE_USER_PHONE_NUMBER", object{"userId": s.Root, "userPhoneNumber": "+15005550009"}},
		{"UPDATE_USER", object{"userId": s.Root, "userEmail": "c@example.org"}},
	} {
		s.Refuse(x.typ, x.in, 7, "a session with a profile gives users no credential")
		was := s.Stamped
		s.Stamped = nil
		s.Run(x.typ, x.in) // by a key it is no matter of profiles
		s.Stamped = was
	}
	// What leads nowhere is as before.
	s.Run("UPDATE_USER", object{"userId": s.Root, "userName": "Another"})
	s.Run("UPDATE_USER_EMAIL", object{"userId": s.Root, "userEmail": ""})
	s.Run("CREATE_USERS_V4", object{"users": []any{object{"userName": "New", "apiKeys": []any{activitytest.APIKey("n", w.FreshKey())}, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}}})
}

func TestReadOnlySession(t *testing.T) {
	w := activitytest.New(t)
	r := w.Run("CREATE_READ_ONLY_SESSION", object{})
	s := told(w, r)
	if !s.Reads() || s.PublicKey != activitytest.SomeP256 || s.UserID != w.Root || s.OrganizationID != w.ID.String() || s.ExpiresMs != w.Now+3600_000 {
		t.Errorf("%+v", s)
	}
	if r["organizationName"] != "Top" || r["username"] != "Root" || r["userId"] != w.Root || r["organizationId"] != w.ID.String() ||
		r["sessionExpiry"] != strconv.FormatUint(s.ExpiresMs/1000, 10) {
		t.Errorf("%v", r)
	}
	if len(w.UserOf(w.Root).APIKeys) != 1 {
		t.Error("a reader's session has a key")
	}
	// It does not outlive the credential that asks for it.
	public := w.FreshP256()
	w.Run("STAMP_LOGIN", object{"publicKey": public, "expirationSeconds": "100"})
	c := activity.APIKeyCredential(keyOf(w, w.Root, public))
	w.Stamped, w.Now = &c, w.Now+40_000
	if s := told(w, w.Run("CREATE_READ_ONLY_SESSION", object{})); s.ExpiresMs != w.Now+60_000 || s.PublicKey != public {
		t.Errorf("%+v", s)
	}
	w.Now += 60_000
	w.Refuse("CREATE_READ_ONLY_SESSION", object{}, 9, "is gone")
	w.Stamped = &org.VoteCredential{PublicKey: w.FreshP256()}
	w.Refuse("CREATE_READ_ONLY_SESSION", object{}, 9, "is gone")
	w.Stamped = &org.VoteCredential{}
	w.Refuse("CREATE_READ_ONLY_SESSION", object{}, 9, "is gone")
	// A passkey's is by its public key.
	u := activitytest.User("Passkey")
	u["authenticators"] = []any{activitytest.PasskeyOf(w, "p")}
	w.User = activitytest.MustID(w.NewUser(u))
	a := &w.UserOf(w.User.String()).Authenticators[0]
	c = activity.PasskeyCredential(a)
	w.Stamped = &c
	if s := told(w, w.Run("CREATE_READ_ONLY_SESSION", object{})); s.PublicKey != hex.EncodeToString(a.PublicKey) || s.UserID != w.User.String() {
		t.Errorf("%+v", s)
	}
}

// openedBy is the private key in a credential bundle.
func openedBy(w *world, private secret.Secret, text any) *ecdh.PrivateKey {
	w.TB.Helper()
	m, err := bundle.ParseCompact(text.(string))
	w.Must(err)
	s, err := m.Open(private)
	w.Must(err)
	var k *ecdh.PrivateKey
	s.Use(func(b []byte) { k, err = ecdh.P256().NewPrivateKey(b) })
	w.Must(err)
	return k
}

func TestReadWriteSession(t *testing.T) {
	w := activitytest.New(t)
	private, err := bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	var target []byte
	private.Use(func(b []byte) {
		k, kerr := ecdh.P256().NewPrivateKey(b)
		w.Must(kerr)
		target = k.PublicKey().Bytes()
	})
	to := hex.EncodeToString(target)
	u := activitytest.User("User", activitytest.APIKey("k", w.FreshKey()))
	u["userEmail"] = "User@Example.org"
	other := w.NewUser(u)
	for _, c := range []struct {
		typ  string
		in   object
		user string
		name string
		life uint64
	}{
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to}, w.Root, "Read write session", 900},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "userId": "", "apiKeyName": "", "expirationSeconds": ""}, w.Root, "Read write session", 900},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "userId": other, "apiKeyName": "Mine", "expirationSeconds": "60"}, other, "Mine", 60},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "user@example.org", "apiKeyName": "Old"}, other, "Old", 900},
	} {
		r := w.Run(c.typ, c.in)
		k := openedBy(w, private, r["credentialBundle"]).PublicKey().Bytes()
		public := hex.EncodeToString(append([]byte{2 | k[64]&1}, k[1:33]...))
		rec := keyOf(w, c.user, public)
		if rec == nil || rec.ID.String() != r["apiKeyId"] || rec.Name != c.name || rec.ExpirationSeconds != c.life || rec.Type != "CREDENTIAL_TYPE_READ_WRITE_SESSION_KEY_P256" {
			t.Fatalf("%v: %+v", r, rec)
		}
		if r["userId"] != c.user || r["username"] != w.UserOf(c.user).Name || r["organizationId"] != w.ID.String() || r["organizationName"] != "Top" {
			t.Errorf("%v", r)
		}
	}
	// Two of other's; the log-in sessions stay.
	w.Run("STAMP_LOGIN", object{"publicKey": w.FreshP256()})
	w.Run("CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "invalidateExisting": true})
	if n := len(w.UserOf(w.Root).APIKeys); n != 3 {
		t.Errorf("%d keys of the caller", n)
	}
	if n := len(w.UserOf(other).APIKeys); n != 3 {
		t.Errorf("%d keys of the other user", n)
	}
	same := activitytest.User("Twin", activitytest.APIKey("k", w.FreshKey()))
	same["userEmail"] = "user@example.ORG"
	w.NewUser(same)
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
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "userId": activitytest.SomeID}, 5, "user not found"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "email": "user@example.org"}, 3, "email"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "expirationSeconds": "2592001"}, 3, "must be a number of seconds, 1 to 2592000"},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": to, "apiKeyName": " x"}, 3, "apiKeyName"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to}, 3, "email"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "nobody@example.org"}, 5, "user with email not found"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "user@example.org"}, 3, "more than one user"},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": to, "email": "user@example.org", "invalidateExisting": true}, 3, "invalidateExisting"},
	} {
		_, err := w.Try(c.typ, c.in)
		if int(activitytest.Code(err)) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v: %v", c.in, err)
		}
	}
}

// Everybody starts sessions of their own; for another that is no self-service.
func TestSessionsAreSelfService(t *testing.T) {
	w := activitytest.New(t)
	u := activitytest.User("User", activitytest.APIKey("k", w.FreshKey()))
	u["userEmail"] = "user@example.org"
	id := w.NewUser(u)
	for _, c := range []struct {
		typ  string
		in   object
		self bool
	}{
		{"STAMP_LOGIN", object{"publicKey": activitytest.SomeP256}, true},
		{"CREATE_READ_ONLY_SESSION", object{}, true},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": activitytest.SomeP256}, true},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": activitytest.SomeP256, "userId": id}, true},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": activitytest.SomeP256, "userId": w.Root}, false},
		{"CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": activitytest.SomeP256, "userId": activitytest.SomeID}, false},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": activitytest.SomeP256, "email": "user@example.org"}, true},
		{"CREATE_READ_WRITE_SESSION", object{"targetPublicKey": activitytest.SomeP256, "email": "other@example.org"}, false},
	} {
		typ := "ACTIVITY_TYPE_" + c.typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.Must(err)
		in, err := v.Decode(activitytest.JSON(c.in))
		w.Must(err)
		q, err := v.PolicyRequest(w.Tx(), in, w.NewID(), activitytest.MustID(id), false)
		w.Must(err)
		if q.SelfService != c.self || q.RootQuorum || q.AboutAnother {
			t.Errorf("%s %v: %+v", typ, c.in, q)
		}
	}
}

// BenchmarkStampLogin is a whole log-in but for the stamp and the store; bare is the
// signature of its token alone.
func BenchmarkStampLogin(b *testing.B) {
	w := activitytest.New(b)
	public := w.FreshP256()
	v, err := kinds.Live.Lookup("stamp_login", "ACTIVITY_TYPE_STAMP_LOGIN")
	w.Must(err)
	b.Run("activity", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			in, err := v.Decode(activitytest.JSON(object{"publicKey": public}))
			w.Must(err)
			_, err = v.Run(&activity.Tx{Tx: w.Tx(), Rand: w.Rand, User: w.User, Sessions: w.Sessions, Stamped: w.Credential()}, in)
			w.Must(err)
		}
	})
	b.Run("bare", func(b *testing.B) {
		s := &login.Session{ExpiresMs: w.Now, PublicKey: public, Type: login.ReadWrite, UserID: w.Root, OrganizationID: w.ID.String()}
		for b.Loop() {
			_, err := login.IssueSession(w.Sessions, s)
			w.Must(err)
		}
	})
}
