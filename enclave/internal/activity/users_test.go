package activity_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

func TestCreateUsers(t *testing.T) {
	w := newWorld(t)
	key := w.freshKey()
	alice := user("Alice", apiKey("a", strings.ToUpper(key)))
	alice["userEmail"], alice["userPhoneNumber"] = "alice@example.org", "+15551234567"
	ids := list(w.run("CREATE_USERS_V4", object{"users": []any{alice, user("Bob", apiKey("a", w.freshKey()))}}), "userIds")
	if len(ids) != 2 {
		t.Fatal(ids)
	}
	id, _ := org.ParseID(ids[0])
	u, err := w.tx().User(id)
	w.must(err)
	if u.Name != "Alice" || u.Email != "alice@example.org" || u.Phone != "+15551234567" || u.CreatedMs != start || len(u.APIKeys) != 1 || u.APIKeys[0].PublicKey != key || u.APIKeys[0].Type != "CREDENTIAL_TYPE_API_KEY_SECP256K1" {
		t.Errorf("%+v", u)
	}
	c, err := w.tx().Credential("API_KEY_CURVE_SECP256K1", key)
	w.must(err)
	if c == nil || c.User != id || c.Key != u.APIKeys[0].ID {
		t.Errorf("%+v", c)
	}
	if o, _ := w.tx().Organization(); o.Users != 3 || o.Root(id) {
		t.Errorf("%+v", o)
	}
	with := func(k string, v any) object {
		u := user("Carol", apiKey("k", w.freshKey()))
		u[k] = v
		return object{"users": []any{u}}
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"users": []any{user("Alice", apiKey("k", w.freshKey()))}}, 3, "user label must be unique"},
		{object{"users": []any{user("D", apiKey("k", w.freshKey())), user("D", apiKey("k", w.freshKey()))}}, 3, "user label must be unique"},
		{object{"users": []any{user("D", apiKey("k", key))}}, 3, "must be unique"},
		{object{"users": []any{user("D", apiKey("k", strings.ToUpper(key)))}}, 3, "must be unique"},
		{object{"users": []any{user("D", apiKey("k", someKey)), user("E", apiKey("k", someKey))}}, 3, "must be unique"},
		{object{"users": []any{user("D")}}, 3, "at least one credential"},
		{object{"users": []any{}}, 3, "missing field `users`"},
		{with("userEmail", ""), 3, "invalid email address"},
		{with("userEmail", "nobody"), 3, "invalid email address"},
		{with("userPhoneNumber", ""), 3, "phone"},
		{with("userPhoneNumber", "123"), 3, "userPhoneNumber"},
		{with("userTags", []any{w.root}), 5, "user tag not found: " + w.root},
		{with("userName", " x"), 3, "userName"},
		{with("apiKeys", []any{apiKey("k", "02"+strings.Repeat("f", 64))}), 3, "invalid api key"},
		{with("apiKeys", []any{apiKey("k", strings.Repeat("a", 64))}), 3, "invalid api key"},
		{with("apiKeys", []any{apiKey("k", "05"+someKey[2:])}), 3, "invalid api key"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": notP256, "curveType": "API_KEY_CURVE_P256"}}), 3, "invalid api key"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": someKey, "curveType": "API_KEY_CURVE_P384"}}), 3, "invalid curve"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": someKey}}), 3, "curve required"},
		{with("apiKeys", []any{expiring("k", someKey, "")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{expiring("k", someKey, "0")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{expiring("k", someKey, "-1")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{expiring("k", someKey, "1.5")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{expiring("k", someKey, "+5")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{expiring("k", someKey, "18446744073709551615")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": someKey, "curveType": "API_KEY_CURVE_SECP256K1", "expirationSeconds": 5}}), 3, "invalid api key expiration"},
		{with("authenticators", []any{sample("AuthenticatorParamsV2")}), 3, "invalid attestation"},
		{with("authenticators", []any{object{"authenticatorName": "p", "challenge": "Y2g", "attestation": object{"credentialId": "!", "clientDataJson": "e30", "attestationObject": "oA", "transports": []any{}}}}), 3, "not base64url"},
		{with("oauthProviders", []any{object{"providerName": "p", "oidcToken": "t"}}), 3, "not a signed token"},
		{with("oauthProviders", []any{claims("https://issuer.example", "s", "a")}), 3, "must share iss and sub"},
		{with("userTags", []any{"x"}), 3, "UUID"},
	} {
		w.refused("CREATE_USERS_V4", c.params, c.code, c.says)
	}
	for field, params := range map[string]any{
		"users.0.userEmail": with("userEmail", ""), "users.0.apiKeys": object{"users": []any{user("D")}}, "users.0.userName": object{"users": []any{user("Alice", apiKey("k", someKey))}},
		"users.0.oauthProviders.0.oidcClaims": with("oauthProviders", []any{claims("https://issuer.example", "s", "a")}),
	} {
		_, err := w.try("CREATE_USERS_V4", params)
		if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != field || (e.Name == "INVALID_EMAIL") != strings.HasSuffix(field, "userEmail") {
			t.Errorf("%s: %+v", field, e)
		}
	}
}

func TestUsersWithPasskeys(t *testing.T) {
	w := newWorld(t)
	u := user("Passkey")
	first := passkeyOf(w, "mine")
	u["authenticators"] = []any{first}
	id := newUser(w, u)
	rec := userOf(w, id)
	if len(rec.Authenticators) != 1 || rec.Authenticators[0].Name != "mine" || len(rec.APIKeys) != 0 {
		t.Errorf("%+v", rec)
	}
	c, err := w.tx().Credential(org.PasskeyCurve, hex.EncodeToString(rec.Authenticators[0].CredentialID))
	w.must(err)
	if c == nil || c.User != rec.ID || c.Key != rec.Authenticators[0].ID {
		t.Errorf("%+v", c)
	}
	u["userName"] = "Another"
	w.refused("CREATE_USERS_V4", object{"users": []any{u}}, 3, "must be unique in the organization")
	// Versions 1 and 2 take them too.
	b := passkeyOf(w, "theirs")
	att := b["attestation"].(object)
	v1 := object{"authenticatorName": "theirs", "userId": w.root, "challenge": b["challenge"], "attestation": object{
		"id": att["credentialId"], "type": "public-key", "rawId": att["credentialId"], "clientExtensionResults": object{},
		"response": object{"clientDataJson": att["clientDataJson"], "attestationObject": att["attestationObject"]}}}
	for typ, u := range map[string]object{
		"CREATE_USERS":    {"userName": "one", "accessType": "ACCESS_TYPE_WEB", "apiKeys": []any{}, "authenticators": []any{v1}, "userTags": []any{}},
		"CREATE_USERS_V2": {"userName": "two", "apiKeys": []any{}, "authenticators": []any{passkeyOf(w, "theirs")}, "userTags": []any{}},
		"CREATE_USERS_V3": {"userName": "three", "apiKeys": []any{}, "authenticators": []any{passkeyOf(w, "theirs")}, "oauthProviders": []any{}, "userTags": []any{}},
	} {
		ids := list(w.run(typ, object{"users": []any{u}}), "userIds")
		if rec := userOf(w, ids[0]); len(rec.Authenticators) != 1 || rec.Authenticators[0].Name != "theirs" {
			t.Errorf("%s: %+v", typ, rec)
		}
	}
}

// newUser makes one user and returns its id.
func newUser(w *world, u object) string {
	w.t.Helper()
	return list(w.run("CREATE_USERS_V4", object{"users": []any{u}}), "userIds")[0]
}

func userOf(w *world, text string) *org.User {
	w.t.Helper()
	id, err := org.ParseID(text)
	w.must(err)
	u, err := w.tx().User(id)
	w.must(err)
	return u
}

// passkeyOf is a new passkey as a browser gives it, without a statement.
func passkeyOf(w *world, name string) object {
	public, _, err := ed25519.GenerateKey(w.rand)
	w.must(err)
	id := w.newID()
	party := sha256.Sum256([]byte("example.org"))
	data := append(party[:], 0x41, 0, 0, 0, 7)
	data = append(append(data, make([]byte, 16)...), 0, byte(len(id)))
	data = append(append(data, id[:]...), 0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32) // a COSE_Key for EdDSA
	data = append(data, public...)
	o := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), byte(len(data)))
	o = append(o, data...)
	client := text(object{"type": "webauthn.create", "challenge": "Y2hhbGxlbmdl", "origin": "https://example.org"})
	e := base64.RawURLEncoding.EncodeToString
	return object{"authenticatorName": name, "challenge": "Y2hhbGxlbmdl", "attestation": object{
		"credentialId": e(id[:]), "clientDataJson": e(client), "attestationObject": e(o), "transports": []any{}}}
}

func TestCreateAPIOnlyUsers(t *testing.T) {
	w := newWorld(t)
	tag := w.run("CREATE_USER_TAG", object{"userTagName": "robots", "userIds": []any{}})["userTagId"].(string)
	key := somePublic(w)
	robot := func(name string, change ...any) object {
		u := object{"userName": name, "userTags": []any{tag}, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": somePublic(w)}}}
		for i := 0; i+1 < len(change); i += 2 {
			u[change[i].(string)] = change[i+1]
		}
		return object{"apiOnlyUsers": []any{u}}
	}
	ids := list(w.run("CREATE_API_ONLY_USERS", robot("R", "userEmail", "r@example.org", "apiKeys", []any{object{"apiKeyName": "k", "publicKey": key}})), "userIds")
	u := userOf(w, ids[0])
	if u.Name != "R" || u.Email != "r@example.org" || len(u.APIKeys) != 1 || u.APIKeys[0].PublicKey != key || u.APIKeys[0].Type != "CREDENTIAL_TYPE_API_KEY_P256" ||
		len(u.Tags) != 1 || u.Tags[0].String() != tag || mustOrganization(w).Users != 2 {
		t.Errorf("%+v", u)
	}
	nobody := w.newID().String()
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{robot("R"), 3, "user label must be unique"},
		{robot("S", "apiKeys", []any{}), 3, "at least one credential"},
		{robot("S", "apiKeys", []any{object{"apiKeyName": "k", "publicKey": key}}), 3, "must be unique"},
		{robot("S", "apiKeys", []any{apiKey("k", someKey)}), 3, "curveType"},
		{robot("S", "userEmail", ""), 3, "invalid email address"},
		{robot("S", "userTags", []any{nobody}), 5, "user tag not found: " + nobody},
		{robot("S", "userTags", []any{tag, tag}), 3, "named twice"},
		{robot("S", "authenticators", []any{}), 3, "unknown field"},
		{robot("S", "userPhoneNumber", "+15551234567"), 3, "unknown field"},
		{object{"apiOnlyUsers": []any{}}, 3, "missing field `apiOnlyUsers`"},
	} {
		w.refused("CREATE_API_ONLY_USERS", c.params, c.code, c.says)
	}
	many := make([]any, 99)
	for i := range many {
		many[i] = robot(fmt.Sprint("many ", i))["apiOnlyUsers"].([]any)[0]
	}
	w.refused("CREATE_API_ONLY_USERS", object{"apiOnlyUsers": many}, 8, "at most 100 users")
	w.run("CREATE_API_ONLY_USERS", object{"apiOnlyUsers": many[:98]})
	w.refused("CREATE_API_ONLY_USERS", robot("one more"), 8, "at most 100 users")
}

// alter changes records behind the activities' back.
func alter(w *world, change func(tx *org.Tx)) {
	w.t.Helper()
	tx := w.tx()
	change(tx)
	ws, err := tx.Writes()
	w.must(err)
	w.state.Apply(ws)
}

func verify(w *world, id string) {
	alter(w, func(tx *org.Tx) {
		u := *userOf(w, id)
		u.EmailVerified, u.PhoneVerified = true, true
		w.must(tx.PutUser(&u))
	})
}

func TestUpdateUser(t *testing.T) {
	w := newWorld(t)
	alice := user("Alice", apiKey("a", w.freshKey()))
	alice["userEmail"], alice["userPhoneNumber"] = "alice@example.org", "+15551234567"
	id := newUser(w, alice)
	verify(w, id)
	one := w.run("CREATE_USER_TAG", object{"userTagName": "one", "userIds": []any{id}})["userTagId"].(string)
	two := w.run("CREATE_USER_TAG", object{"userTagName": "two", "userIds": []any{}})["userTagId"].(string)
	w.now += 1000
	// What is absent or empty stays.
	if r := w.run("UPDATE_USER", object{"userId": id, "userEmail": "", "userPhoneNumber": "+15551234567", "userName": nil, "userTagIds": []any{}}); r["userId"] != id {
		t.Error(r)
	}
	u := userOf(w, id)
	if u.Name != "Alice" || u.Email != "alice@example.org" || !u.EmailVerified || !u.PhoneVerified || len(u.Tags) != 1 || u.UpdatedMs != start+1000 {
		t.Errorf("%+v", u)
	}
	w.run("UPDATE_USER", object{"userId": id, "userName": "Bob", "userEmail": "bob@example.org", "userTagIds": []any{two}})
	u = userOf(w, id)
	if u.Name != "Bob" || u.Email != "bob@example.org" || u.EmailVerified || u.Phone == "" || !u.PhoneVerified || len(u.Tags) != 1 || u.Tags[0].String() != two {
		t.Errorf("%+v", u)
	}
	verify(w, id)
	w.run("UPDATE_USER", object{"userId": id, "userPhoneNumber": "+15557654321", "userEmail": "bob@example.org"})
	if u = userOf(w, id); !u.EmailVerified {
		t.Error("the address is the one that was verified")
	}
	w.run("UPDATE_USER", object{"userId": id, "userPhoneNumber": ""})
	if u = userOf(w, id); u.Phone != "+15557654321" || u.PhoneVerified {
		t.Errorf("%+v", u)
	}
	newUser(w, user("Alice", apiKey("a", w.freshKey()))) // the name is free again
	nobody := w.newID().String()
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"userId": nobody, "userName": "X"}, 5, "user not found: " + nobody},
		{object{"userName": "X"}, 3, "missing field `userId`"},
		{object{"userId": id, "userName": "Alice"}, 3, "user label must be unique"},
		{object{"userId": id, "userName": " x"}, 3, "userName"},
		{object{"userId": id, "userEmail": "x"}, 3, "invalid email address"},
		{object{"userId": id, "userPhoneNumber": "123"}, 3, "userPhoneNumber"},
		{object{"userId": id, "userTagIds": []any{nobody}}, 5, "user tag not found: " + nobody},
		{object{"userId": id, "userTagIds": []any{one, one}}, 3, "named twice"},
		{object{"userId": id, "userName": "X", "userTagIds": []any{one, nobody}}, 5, "user tag not found"}, // all or nothing
	} {
		w.refused("UPDATE_USER", c.params, c.code, c.says)
	}
}

func TestUpdateContacts(t *testing.T) {
	w := newWorld(t)
	for typ, c := range map[string]struct {
		field, first, second, bad, says string
		get                             func(*org.User) (string, bool)
	}{
		"UPDATE_USER_EMAIL":        {"userEmail", "a@example.org", "b@example.org", "b@", "invalid email address", func(u *org.User) (string, bool) { return u.Email, u.EmailVerified }},
		"UPDATE_USER_PHONE_NUMBER": {"userPhoneNumber", "+15551234567", "+15557654321", "0555", "telephone", func(u *org.User) (string, bool) { return u.Phone, u.PhoneVerified }},
	} {
		for _, value := range []string{c.first, c.second, "", c.first} {
			w.run(typ, object{"userId": w.root, c.field: value})
			if got, verified := c.get(userOf(w, w.root)); got != value || verified {
				t.Errorf("%s: %q %v, want %q", typ, got, verified, value)
			}
			verify(w, w.root)
		}
		w.run(typ, object{"userId": w.root, c.field: c.first, "verificationToken": ""}) // given anew, and nothing shows whose it is
		if got, verified := c.get(userOf(w, w.root)); got != c.first || verified {
			t.Errorf("%s: %q %v", typ, got, verified)
		}
		nobody := w.newID().String()
		w.refused(typ, object{"userId": nobody, c.field: c.first}, 5, "user not found: "+nobody)
		w.refused(typ, object{"userId": w.root, c.field: c.bad}, 3, c.says)
		w.refused(typ, object{"userId": w.root}, 3, "missing field `"+c.field+"`")
		w.refused(typ, object{"userId": w.root, c.field: nil}, 3, "missing field `"+c.field+"`")
		w.refused(typ, object{c.field: c.first}, 3, "missing field `userId`")
		w.refused(typ, object{"userId": w.root, c.field: c.second, "verificationToken": "x.y.z"}, 3, "invalid verification token")
	}
}

func TestDeleteUsers(t *testing.T) {
	w := newWorld(t)
	alice := user("Alice", apiKey("a", someKey), expiring("b", w.freshKey(), "900"))
	alice["authenticators"] = []any{passkeyOf(w, "p")}
	a, b, c := newUser(w, alice), newUser(w, user("Bob", apiKey("b", w.freshKey()))), newUser(w, user("Carol", apiKey("c", w.freshKey())))
	rec := userOf(w, a)
	n, err := w.tx().Counter(rec.Authenticators[0].ID)
	w.must(err)
	if n == 0 {
		t.Fatal("the passkey does not count")
	}
	invite := func(sender string) string {
		return list(w.run("CREATE_INVITATIONS", invitations(invitation("I"+sender[:4], sender))), "invitationIds")[0]
	}
	theirs, other := invite(a), invite(b)
	alter(w, func(tx *org.Tx) {
		w.must(tx.PutAllowlist(someKey, &org.Allowlist{}))
		w.must(tx.PutAllowlist("", &org.Allowlist{}))
	})
	nobody := w.newID().String()
	for _, x := range []struct {
		ids  []any
		code fault.Code
		says string
	}{
		{[]any{w.root}, 3, "quorum users missing"},
		{[]any{a, w.root}, 3, "quorum users missing"},
		{[]any{nobody}, 5, "user not found: " + nobody},
		{[]any{a, nobody}, 5, "user not found: " + nobody},
		{[]any{a, a}, 3, "named twice"},
		{[]any{}, 3, "missing field `userIds`"},
	} {
		w.refused("DELETE_USERS", object{"userIds": x.ids}, x.code, x.says)
	}
	if got := list(w.run("DELETE_USERS", object{"userIds": []any{a, c}}), "userIds"); len(got) != 2 || got[0] != a || got[1] != c {
		t.Error(got)
	}
	if o := mustOrganization(w); o.Users != 2 || o.Invitations != 1 {
		t.Errorf("%+v", o)
	}
	if userOf(w, a) != nil || userOf(w, c) != nil || userOf(w, b) == nil {
		t.Error("not those users are gone")
	}
	tx := w.tx()
	for curve, keys := range map[string][]string{
		"API_KEY_CURVE_SECP256K1": {rec.APIKeys[0].PublicKey, rec.APIKeys[1].PublicKey},
		org.PasskeyCurve:          {hex.EncodeToString(rec.Authenticators[0].CredentialID)},
	} {
		for _, k := range keys {
			held, err := tx.Credential(curve, k)
			w.must(err)
			if held != nil {
				t.Errorf("%s %s is known", curve, k)
			}
		}
	}
	if n, _ := tx.Counter(rec.Authenticators[0].ID); n != 0 {
		t.Error("the counter is there")
	}
	if l, _ := tx.Allowlist(someKey); l != nil {
		t.Error("the key's addresses are there")
	}
	if l, _ := tx.Allowlist(""); l == nil {
		t.Error("the organization's addresses are gone")
	}
	id, _ := org.ParseID(theirs)
	if i, _ := tx.Invitation(id); i != nil {
		t.Error("the invitation is there")
	}
	id, _ = org.ParseID(other)
	if i, _ := tx.Invitation(id); i == nil {
		t.Error("another's invitation is gone")
	}
	newUser(w, user("Alice", apiKey("a", someKey))) // name and key are free
	// Even without a quorum somebody stays.
	alter(w, func(tx *org.Tx) {
		o := *mustOrganization(w)
		o.RootUsers, o.Users = []org.ID{w.newID()}, 1
		w.must(tx.PutOrganization(&o))
	})
	w.refused("DELETE_USERS", object{"userIds": []any{b}}, 3, "last user")
}

// A parent finds the users of its sub-organizations as they are now.
func TestLinksFollowUsers(t *testing.T) {
	w := newWorld(t)
	sub := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, rootUser("Root", apiKey("r", w.freshKey()))))["subOrganizationId"])
	found := func(what byte, value string, want bool) {
		t.Helper()
		ids, err := w.tx().ChildrenBy(what, value, nil, 2)
		w.must(err)
		if (len(ids) == 1 && ids[0] == sub.id) != want {
			t.Errorf("%c %s: %v", what, value, ids)
		}
	}
	key := w.freshKey()
	u := user("U", apiKey("k", key), expiring("e", someKey, "900"))
	u["userEmail"], u["userPhoneNumber"] = "U@Example.org", "+15551234567"
	pass := passkeyOf(w, "p")
	u["authenticators"] = []any{pass}
	id := newUser(sub, u)
	passkey := hex.EncodeToString(userOf(sub, id).Authenticators[0].CredentialID)
	found(org.ChildEmail, "u@example.org", true)
	found(org.ChildVerifiedEmail, "u@example.org", false)
	found(org.ChildPhone, "+15551234567", true)
	found(org.ChildCredential, "API_KEY_CURVE_SECP256K1:"+key, true)
	found(org.ChildCredential, "API_KEY_CURVE_SECP256K1:"+someKey, true) // though it expires: with such a key a client logs in first
	found(org.ChildCredential, org.PasskeyCurve+":"+passkey, true)
	sub.run("UPDATE_USER_EMAIL", object{"userId": id, "userEmail": "v@example.org"})
	found(org.ChildEmail, "u@example.org", false)
	found(org.ChildEmail, "v@example.org", true)
	sub.run("UPDATE_USER", object{"userId": id, "userEmail": "x@example.org"})
	found(org.ChildEmail, "v@example.org", false)
	found(org.ChildEmail, "x@example.org", true)
	sub.run("UPDATE_USER_PHONE_NUMBER", object{"userId": id, "userPhoneNumber": ""})
	found(org.ChildPhone, "+15551234567", false)
	sub.run("DELETE_API_KEYS", object{"userId": id, "apiKeyIds": []any{userOf(sub, id).APIKeys[0].ID.String()}})
	found(org.ChildCredential, "API_KEY_CURVE_SECP256K1:"+key, false)
	identity(sub, id, "https://issuer.example", "s", "a")
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "a"), true)
	r := sub.run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": id, "oauthProviders": []any{claims("https://issuer.example", "s", "b")}})
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "b"), true)
	sub.run("DELETE_OAUTH_PROVIDERS", object{"userId": id, "providerIds": r["providerIds"]})
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "b"), false)
	sub.run("DELETE_USERS", object{"userIds": []any{id}})
	found(org.ChildEmail, "x@example.org", false)
	found(org.ChildCredential, org.PasskeyCurve+":"+passkey, false)
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "a"), false)
	if o := mustOrganization(w); o.Users != 1 {
		t.Errorf("%+v", o)
	}
}

// What a root user of a sub-organization can log in with last stays.
func TestTheLastMeansOfARootUserStay(t *testing.T) {
	w := newWorld(t)
	u := rootUser("Mail")
	u["userEmail"] = "mail@example.org"
	sub := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, u))["subOrganizationId"])
	sub.refused("UPDATE_USER_EMAIL", object{"userId": sub.root, "userEmail": ""}, 3, "last credential")
	sub.run("UPDATE_USER_EMAIL", object{"userId": sub.root, "userEmail": "other@example.org"})
	sub.run("UPDATE_USER_PHONE_NUMBER", object{"userId": sub.root, "userPhoneNumber": "+15551234567"})
	sub.run("UPDATE_USER_EMAIL", object{"userId": sub.root, "userEmail": ""})
	sub.refused("UPDATE_USER_PHONE_NUMBER", object{"userId": sub.root, "userPhoneNumber": ""}, 3, "last credential")
	provider := identity(sub, sub.root, "https://issuer.example", "s", "a")
	sub.run("UPDATE_USER_PHONE_NUMBER", object{"userId": sub.root, "userPhoneNumber": ""})
	sub.refused("DELETE_OAUTH_PROVIDERS", object{"userId": sub.root, "providerIds": []any{provider}}, 3, "last credential")
	// In a top-level organization nobody sends a passcode to an address.
	w.run("UPDATE_USER_EMAIL", object{"userId": w.root, "userEmail": "root@example.org"})
	w.refused("DELETE_API_KEYS", object{"userId": w.root, "apiKeyIds": []any{w.rootKey(w.tx()).String()}}, 3, "last credential")
	identity(w, w.root, "https://issuer.example", "r", "a")
	w.run("DELETE_API_KEYS", object{"userId": w.root, "apiKeyIds": []any{w.rootKey(w.tx()).String()}})
}

// Policies see what an activity is about, and users may change their own
// credentials.
func TestWhatPoliciesSee(t *testing.T) {
	w := newWorld(t)
	member := func(name string, v policy.Value) policy.Member { return policy.Member{Name: name, Value: v} }
	key := someID
	for _, c := range []struct {
		typ    string
		params any
		want   policy.Value
		self   bool
	}{
		{"DELETE_USERS", object{"userIds": []any{w.root, key}}, policy.Struct(member("user_ids", policy.Strings([]string{w.root, key}))), false},
		{"CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": []any{apiKey("k", someKey)}}, policy.Struct(member("user_id", policy.String(w.root))), true},
		{"CREATE_API_KEYS", object{"userId": w.root, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": someP256}}}, policy.Struct(member("user_id", policy.String(w.root))), true},
		{"CREATE_API_KEYS_V2", object{"userId": key, "apiKeys": []any{apiKey("k", someKey)}}, policy.Struct(member("user_id", policy.String(key))), false},
		{"DELETE_API_KEYS", object{"userId": w.root, "apiKeyIds": []any{key}}, policy.Struct(member("user_id", policy.String(w.root)), member("api_key_ids", policy.Strings([]string{key}))), true},
		{"CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.root, "oauthProviders": []any{claims("i", "s", "a")}}, policy.Value{}, true},
		{"CREATE_OAUTH_PROVIDERS_V2", object{"userId": key, "oauthProviders": []any{claims("i", "s", "a")}}, policy.Value{}, false},
		{"DELETE_OAUTH_PROVIDERS", object{"userId": w.root, "providerIds": []any{key}}, policy.Value{}, true},
		{"UPDATE_USER_NAME", object{"userId": w.root, "userName": "x"}, policy.Value{}, false},
		{"UPDATE_USER_EMAIL", object{"userId": w.root, "userEmail": ""}, policy.Value{}, false},
		{"UPDATE_USER", object{"userId": w.root}, policy.Value{}, false},
	} {
		typ := "ACTIVITY_TYPE_" + c.typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.must(err)
		in, err := v.Decode(text(c.params))
		w.must(err)
		r, err := v.Question(w.tx(), in, w.newID(), w.user, false)
		w.must(err)
		if !reflect.DeepEqual(r.Params, c.want) || r.Self != c.self || r.RootQuorum {
			t.Errorf("%s: %+v", c.typ, r)
		}
	}
}

func TestOlderUsersAreCarriedUp(t *testing.T) {
	w := newWorld(t)
	p256 := func(name string) object { return object{"apiKeyName": name, "publicKey": somePublic(w)} }
	v1 := object{"userName": "one", "userEmail": "one@example.org", "accessType": "ACCESS_TYPE_API", "apiKeys": []any{p256("k")}, "authenticators": []any{}, "userTags": []any{}}
	v2 := object{"userName": "two", "apiKeys": []any{p256("k")}}
	v3 := object{"userName": "three", "userPhoneNumber": "+15551234567", "apiKeys": []any{apiKey("k", w.freshKey())}}
	for typ, u := range map[string]object{"CREATE_USERS": v1, "CREATE_USERS_V2": v2, "CREATE_USERS_V3": v3} {
		ids := list(w.run(typ, object{"users": []any{u}}), "userIds")
		id, _ := org.ParseID(ids[0])
		rec, err := w.tx().User(id)
		w.must(err)
		if rec.Name != u["userName"] || len(rec.APIKeys) != 1 {
			t.Errorf("%s: %+v", typ, rec)
		}
		if email, _ := u["userEmail"].(string); rec.Email != email {
			t.Errorf("%s: %q", typ, rec.Email)
		}
		if phone, _ := u["userPhoneNumber"].(string); rec.Phone != phone {
			t.Errorf("%s: %q", typ, rec.Phone)
		}
	}
	v1["userName"], v1["apiKeys"], v1["authenticators"] = "more", []any{}, []any{sample("AuthenticatorParams")}
	w.refused("CREATE_USERS", object{"users": []any{v1}}, 3, "invalid attestation")
	v3["userName"], v3["apiKeys"], v3["oauthProviders"] = "more", []any{}, []any{object{"providerName": "p", "oidcToken": "t"}}
	w.refused("CREATE_USERS_V3", object{"users": []any{v3}}, 3, "not a signed token")
	v3["oauthProviders"] = []any{claims("i", "s", "a")}
	w.refused("CREATE_USERS_V3", object{"users": []any{v3}}, 3, "oidcClaims")
	v2["userPhoneNumber"] = "+15551234567"
	w.refused("CREATE_USERS_V2", object{"users": []any{v2}}, 3, "userPhoneNumber")
}

func TestUserLimit(t *testing.T) {
	w := newWorld(t)
	many := func(n int) object {
		us := make([]any, n)
		for i := range us {
			us[i] = user(fmt.Sprint("user ", n, " ", i), apiKey("k", w.freshKey()))
		}
		return object{"users": us}
	}
	w.refused("CREATE_USERS_V4", many(100), 8, "at most 100 users")
	w.run("CREATE_USERS_V4", many(99))
	w.refused("CREATE_USERS_V4", many(1), 8, "at most 100 users")
}

func TestUpdateUserName(t *testing.T) {
	w := newWorld(t)
	w.run("CREATE_USERS_V4", object{"users": []any{user("Alice", apiKey("k", w.freshKey()))}})
	w.now += 1000
	if r := w.run("UPDATE_USER_NAME", object{"userId": w.root, "userName": "King"}); r["userId"] != w.root {
		t.Error(r)
	}
	if u, _ := w.tx().User(w.user); u.Name != "King" || u.UpdatedMs != start+1000 || u.CreatedMs != start {
		t.Errorf("%+v", u)
	}
	w.run("UPDATE_USER_NAME", object{"userId": w.root, "userName": "King"}) // its own name is free for it
	w.refused("UPDATE_USER_NAME", object{"userId": w.root, "userName": "Alice"}, 3, "user label must be unique")
	other := w.newID().String()
	w.refused("UPDATE_USER_NAME", object{"userId": other, "userName": "Nobody"}, 5, "user not found: "+other)
	w.run("CREATE_USERS_V4", object{"users": []any{user("Root", apiKey("k", w.freshKey()))}}) // the old name is free
}

func TestCreateAPIKeys(t *testing.T) {
	w := newWorld(t)
	add := func(ks ...object) object { return object{"userId": w.root, "apiKeys": ks} }
	ed := object{"apiKeyName": "ed", "publicKey": strings.Repeat("ab", 32), "curveType": "API_KEY_CURVE_ED25519"}
	if ids := list(w.run("CREATE_API_KEYS_V2", add(ed, apiKey("k", w.freshKey()))), "apiKeyIds"); len(ids) != 2 {
		t.Error(ids)
	}
	if c, _ := w.tx().Credential("API_KEY_CURVE_ED25519", strings.Repeat("ab", 32)); c == nil || c.User != w.user {
		t.Errorf("%+v", c)
	}
	w.run("CREATE_API_KEYS", object{"userId": w.root, "apiKeys": []any{object{"apiKeyName": "old", "publicKey": somePublic(w)}}})
	w.refused("CREATE_API_KEYS", object{"userId": w.root, "apiKeys": []any{ed}}, 3, "")
	w.refused("CREATE_API_KEYS_V2", add(ed), 3, "must be unique")
	other := w.newID().String()
	w.refused("CREATE_API_KEYS_V2", object{"userId": other, "apiKeys": []any{apiKey("k", w.freshKey())}}, 5, "user not found: "+other)

	var long []object
	for i := range 7 {
		long = append(long, apiKey(fmt.Sprint(i), w.freshKey()))
	}
	w.refused("CREATE_API_KEYS_V2", add(long...), 8, "user has exceeded maximum long-lived api keys")
	w.run("CREATE_API_KEYS_V2", add(long[:6]...))
	w.refused("CREATE_API_KEYS_V2", add(long[6]), 8, "user has exceeded maximum long-lived api keys")
}

func TestExpiringKeysAreEvicted(t *testing.T) {
	w := newWorld(t)
	add := func(seconds string) string {
		t.Helper()
		public := w.freshKey()
		w.run("CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": []any{expiring("e", public, seconds)}})
		w.now += 1000
		return public
	}
	known := func(public string) bool {
		c, err := w.tx().Credential("API_KEY_CURVE_SECP256K1", public)
		w.must(err)
		return c != nil
	}
	oldest := add("10000")
	second := add("10000")
	short := add("30")
	for range 7 {
		add("10000")
	}
	if !known(oldest) || !known(second) || !known(short) {
		t.Fatal("evicted too early")
	}
	w.now += 60_000
	add("10000") // the eleventh: the expired one goes first
	if known(short) || !known(oldest) {
		t.Error("not the expired one")
	}
	add("10000")
	if known(oldest) || !known(second) {
		t.Error("not the oldest one")
	}
	u, _ := w.tx().User(w.user)
	if len(u.APIKeys) != 11 || u.APIKeys[0].ExpirationSeconds != 0 {
		t.Errorf("%d keys", len(u.APIKeys))
	}
	var eleven []any
	for range 11 {
		eleven = append(eleven, expiring("e", w.freshKey(), "5"))
	}
	w.refused("CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": eleven}, 8, "user has exceeded maximum short-lived api keys")
	w.run("CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": eleven[:10]})
	if u, _ := w.tx().User(w.user); len(u.APIKeys) != 11 || u.APIKeys[1].ExpirationSeconds != 5 {
		t.Errorf("%+v", u.APIKeys)
	}
}

func TestDeleteAPIKeys(t *testing.T) {
	w := newWorld(t)
	first := w.rootKey(w.tx()).String()
	del := func(ids ...string) object { return object{"userId": w.root, "apiKeyIds": ids} }
	w.refused("DELETE_API_KEYS", del(first), 3, "last credential")
	temporary := list(w.run("CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": []any{expiring("e", w.freshKey(), "5")}}), "apiKeyIds")[0]
	w.refused("DELETE_API_KEYS", del(first), 3, "last credential")
	w.run("DELETE_API_KEYS", del(temporary))
	second := list(w.run("CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": []any{apiKey("s", someKey)}}), "apiKeyIds")[0]
	w.refused("DELETE_API_KEYS", del(first, second), 3, "last credential")
	w.refused("DELETE_API_KEYS", del(second, second), 3, "named twice")
	other := w.newID().String()
	w.refused("DELETE_API_KEYS", del(second, other), 5, "api key not found: "+other)
	w.refused("DELETE_API_KEYS", object{"userId": other, "apiKeyIds": []any{second}}, 5, "user not found: "+other)
	if got := list(w.run("DELETE_API_KEYS", del(first)), "apiKeyIds"); len(got) != 1 || got[0] != first {
		t.Error(got)
	}
	if c, _ := w.tx().Credential("API_KEY_CURVE_P256", someP256); c != nil {
		t.Error("the deleted key is known")
	}
	if c, _ := w.tx().Credential("API_KEY_CURVE_SECP256K1", someKey); c == nil {
		t.Error("the other key is gone")
	}
	// Whoever is not of the root quorum may lose the last key; nobody else's key
	// can be named.
	ids := list(w.run("CREATE_USERS_V4", object{"users": []any{user("Bob", apiKey("b", w.freshKey()))}}), "userIds")
	id, _ := org.ParseID(ids[0])
	bob, _ := w.tx().User(id)
	w.refused("DELETE_API_KEYS", del(bob.APIKeys[0].ID.String()), 5, "api key not found")
	w.run("DELETE_API_KEYS", object{"userId": ids[0], "apiKeyIds": []any{bob.APIKeys[0].ID.String()}})
}

// One text is one key, also where it is a point of two curves: what is said of
// keys by their text, such as a list of addresses, is then said of one. The list
// goes with the key.
func TestOneTextIsOneKey(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	both := "" // a number that is x of a point on both curves
	for i := 1; both == ""; i++ {
		x := fmt.Sprintf("02%064x", i)
		_, k := w.try("CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": []any{apiKey("k", x)}})
		_, p := other.try("CREATE_API_KEYS", object{"userId": other.root, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": x}}})
		if k == nil && p == nil {
			both = x
		}
	}
	w.refused("CREATE_API_KEYS", object{"userId": w.root, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": both}}}, 3, "must be unique")
	other.refused("CREATE_API_KEYS_V2", object{"userId": other.root, "apiKeys": []any{apiKey("k", both)}}, 3, "must be unique")
	alter(w, func(tx *org.Tx) { w.must(tx.PutAllowlist(both, &org.Allowlist{Enabled: true})) })
	ks := userOf(w, w.root).APIKeys
	w.run("DELETE_API_KEYS", object{"userId": w.root, "apiKeyIds": []any{ks[len(ks)-1].ID.String()}})
	if l, err := w.tx().Allowlist(both); err != nil || l != nil {
		t.Errorf("%+v %v", l, err)
	}
}

func TestKeyCurve(t *testing.T) {
	for typ, want := range map[string]string{
		"CREDENTIAL_TYPE_API_KEY_P256": "API_KEY_CURVE_P256", "CREDENTIAL_TYPE_API_KEY_SECP256K1": "API_KEY_CURVE_SECP256K1",
		"CREDENTIAL_TYPE_API_KEY_ED25519": "API_KEY_CURVE_ED25519", "CREDENTIAL_TYPE_LOGIN": "API_KEY_CURVE_P256",
	} {
		if got := org.KeyCurve(typ); got != want {
			t.Errorf("%s: %s", typ, got)
		}
	}
}
