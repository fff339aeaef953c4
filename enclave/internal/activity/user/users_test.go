package user_test

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

func TestCreateUsers(t *testing.T) {
	w := activitytest.New(t)
	key := w.FreshKey()
	alice := activitytest.User("Alice", activitytest.APIKey("a", strings.ToUpper(key)))
	alice["userEmail"], alice["userPhoneNumber"] = "alice@example.org", "+15551234567"
	ids := activitytest.List(w.Run("CREATE_USERS_V4", object{"users": []any{alice, activitytest.User("Bob", activitytest.APIKey("a", w.FreshKey()))}}), "userIds")
	if len(ids) != 2 {
		t.Fatal(ids)
	}
	id, _ := org.ParseID(ids[0])
	u, err := w.Tx().User(id)
	w.Must(err)
	if u.Name != "Alice" || u.Email != "alice@example.org" || u.Phone != "+15551234567" || u.CreatedMs != activitytest.Start || len(u.APIKeys) != 1 || u.APIKeys[0].PublicKey != key || u.APIKeys[0].Type != "CREDENTIAL_TYPE_API_KEY_SECP256K1" {
		t.Errorf("%+v", u)
	}
	c, err := w.Tx().Credential("API_KEY_CURVE_SECP256K1", key)
	w.Must(err)
	if c == nil || c.User != id || c.Key != u.APIKeys[0].ID {
		t.Errorf("%+v", c)
	}
	if o, _ := w.Tx().Organization(); o.Users != 3 || o.Root(id) {
		t.Errorf("%+v", o)
	}
	with := func(k string, v any) object {
		u := activitytest.User("Carol", activitytest.APIKey("k", w.FreshKey()))
		u[k] = v
		return object{"users": []any{u}}
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"users": []any{activitytest.User("Alice", activitytest.APIKey("k", w.FreshKey()))}}, 3, "user label must be unique"},
		{object{"users": []any{activitytest.User("D", activitytest.APIKey("k", w.FreshKey())), activitytest.User("D", activitytest.APIKey("k", w.FreshKey()))}}, 3, "user label must be unique"},
		{object{"users": []any{activitytest.User("D", activitytest.APIKey("k", key))}}, 3, "must be unique"},
		{object{"users": []any{activitytest.User("D", activitytest.APIKey("k", strings.ToUpper(key)))}}, 3, "must be unique"},
		{object{"users": []any{activitytest.User("D", activitytest.APIKey("k", activitytest.SomeKey)), activitytest.User("E", activitytest.APIKey("k", activitytest.SomeKey))}}, 3, "must be unique"},
		{object{"users": []any{activitytest.User("D")}}, 3, "at least one credential"},
		{object{"users": []any{}}, 3, "missing field `users`"},
		{with("userEmail", ""), 3, "invalid email address"},
		{with("userEmail", "nobody"), 3, "invalid email address"},
		{with("userPhoneNumber", ""), 3, "phone"},
		{with("userPhoneNumber", "123"), 3, "userPhoneNumber"},
		{with("userTags", []any{w.Root}), 5, "user tag not found: " + w.Root},
		{with("userName", " x"), 3, "userName"},
		{with("apiKeys", []any{activitytest.APIKey("k", "02"+strings.Repeat("f", 64))}), 3, "invalid api key"},
		{with("apiKeys", []any{activitytest.APIKey("k", strings.Repeat("a", 64))}), 3, "invalid api key"},
		{with("apiKeys", []any{activitytest.APIKey("k", "05"+activitytest.SomeKey[2:])}), 3, "invalid api key"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": activitytest.NotP256, "curveType": "API_KEY_CURVE_P256"}}), 3, "invalid api key"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": activitytest.SomeKey, "curveType": "API_KEY_CURVE_P384"}}), 3, "invalid curve"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": activitytest.SomeKey}}), 3, "curve required"},
		{with("apiKeys", []any{activitytest.Expiring("k", activitytest.SomeKey, "")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{activitytest.Expiring("k", activitytest.SomeKey, "0")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{activitytest.Expiring("k", activitytest.SomeKey, "-1")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{activitytest.Expiring("k", activitytest.SomeKey, "1.5")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{activitytest.Expiring("k", activitytest.SomeKey, "+5")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{activitytest.Expiring("k", activitytest.SomeKey, "18446744073709551615")}), 3, "invalid api key expiration"},
		{with("apiKeys", []any{object{"apiKeyName": "k", "publicKey": activitytest.SomeKey, "curveType": "API_KEY_CURVE_SECP256K1", "expirationSeconds": 5}}), 3, "invalid api key expiration"},
		{with("authenticators", []any{activitytest.Sample("AuthenticatorParamsV2")}), 3, "invalid attestation"},
		{with("authenticators", []any{object{"authenticatorName": "p", "challenge": "Y2g", "attestation": object{"credentialId": "!", "clientDataJson": "e30", "attestationObject": "oA", "transports": []any{}}}}), 3, "not base64url"},
		{with("oauthProviders", []any{object{"providerName": "p", "oidcToken": "t"}}), 3, "not a signed token"},
		{with("oauthProviders", []any{activitytest.Claims("https://issuer.example", "s", "a")}), 3, "must share iss and sub"},
		{with("userTags", []any{"x"}), 3, "UUID"},
	} {
		w.Refuse("CREATE_USERS_V4", c.params, c.code, c.says)
	}
	for field, params := range map[string]any{
		"users.0.userEmail": with("userEmail", ""), "users.0.apiKeys": object{"users": []any{activitytest.User("D")}}, "users.0.userName": object{"users": []any{activitytest.User("Alice", activitytest.APIKey("k", activitytest.SomeKey))}},
		"users.0.oauthProviders.0.oidcClaims": with("oauthProviders", []any{activitytest.Claims("https://issuer.example", "s", "a")}),
	} {
		_, err := w.Try("CREATE_USERS_V4", params)
		if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != field || (e.Name == "INVALID_EMAIL") != strings.HasSuffix(field, "userEmail") {
			t.Errorf("%s: %+v", field, e)
		}
	}
}

func TestUsersWithPasskeys(t *testing.T) {
	w := activitytest.New(t)
	u := activitytest.User("Passkey")
	first := activitytest.PasskeyOf(w, "mine")
	u["authenticators"] = []any{first}
	id := w.NewUser(u)
	rec := w.UserOf(id)
	if len(rec.Authenticators) != 1 || rec.Authenticators[0].Name != "mine" || len(rec.APIKeys) != 0 {
		t.Errorf("%+v", rec)
	}
	c, err := w.Tx().Credential(org.PasskeyCurve, hex.EncodeToString(rec.Authenticators[0].CredentialID))
	w.Must(err)
	if c == nil || c.User != rec.ID || c.Key != rec.Authenticators[0].ID {
		t.Errorf("%+v", c)
	}
	u["userName"] = "Another"
	w.Refuse("CREATE_USERS_V4", object{"users": []any{u}}, 3, "must be unique in the organization")
	// Versions 1 and 2 take them too.
	b := activitytest.PasskeyOf(w, "theirs")
	att := b["attestation"].(object)
	v1 := object{"authenticatorName": "theirs", "userId": w.Root, "challenge": b["challenge"], "attestation": object{
		"id": att["credentialId"], "type": "public-key", "rawId": att["credentialId"], "clientExtensionResults": object{},
		"response": object{"clientDataJson": att["clientDataJson"], "attestationObject": att["attestationObject"]}}}
	for typ, u := range map[string]object{
		"CREATE_USERS":    {"userName": "one", "accessType": "ACCESS_TYPE_WEB", "apiKeys": []any{}, "authenticators": []any{v1}, "userTags": []any{}},
		"CREATE_USERS_V2": {"userName": "two", "apiKeys": []any{}, "authenticators": []any{activitytest.PasskeyOf(w, "theirs")}, "userTags": []any{}},
		"CREATE_USERS_V3": {"userName": "three", "apiKeys": []any{}, "authenticators": []any{activitytest.PasskeyOf(w, "theirs")}, "oauthProviders": []any{}, "userTags": []any{}},
	} {
		ids := activitytest.List(w.Run(typ, object{"users": []any{u}}), "userIds")
		if rec := w.UserOf(ids[0]); len(rec.Authenticators) != 1 || rec.Authenticators[0].Name != "theirs" {
			t.Errorf("%s: %+v", typ, rec)
		}
	}
}

func TestCreateAPIOnlyUsers(t *testing.T) {
	w := activitytest.New(t)
	tag := w.Run("CREATE_USER_TAG", object{"userTagName": "robots", "userIds": []any{}})["userTagId"].(string)
	key := w.FreshP256()
	robot := func(name string, change ...any) object {
		u := object{"userName": name, "userTags": []any{tag}, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": w.FreshP256()}}}
		for i := 0; i+1 < len(change); i += 2 {
			u[change[i].(string)] = change[i+1]
		}
		return object{"apiOnlyUsers": []any{u}}
	}
	ids := activitytest.List(w.Run("CREATE_API_ONLY_USERS", robot("R", "userEmail", "r@example.org", "apiKeys", []any{object{"apiKeyName": "k", "publicKey": key}})), "userIds")
	u := w.UserOf(ids[0])
	if u.Name != "R" || u.Email != "r@example.org" || len(u.APIKeys) != 1 || u.APIKeys[0].PublicKey != key || u.APIKeys[0].Type != "CREDENTIAL_TYPE_API_KEY_P256" ||
		len(u.Tags) != 1 || u.Tags[0].String() != tag || w.Organization().Users != 2 {
		t.Errorf("%+v", u)
	}
	nobody := w.NewID().String()
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{robot("R"), 3, "user label must be unique"},
		{robot("S", "apiKeys", []any{}), 3, "at least one credential"},
		{robot("S", "apiKeys", []any{object{"apiKeyName": "k", "publicKey": key}}), 3, "must be unique"},
		{robot("S", "apiKeys", []any{activitytest.APIKey("k", activitytest.SomeKey)}), 3, "curveType"},
		{robot("S", "userEmail", ""), 3, "invalid email address"},
		{robot("S", "userTags", []any{nobody}), 5, "user tag not found: " + nobody},
		{robot("S", "userTags", []any{tag, tag}), 3, "named twice"},
		{robot("S", "authenticators", []any{}), 3, "unknown field"},
		{robot("S", "userPhoneNumber", "+15551234567"), 3, "unknown field"},
		{object{"apiOnlyUsers": []any{}}, 3, "missing field `apiOnlyUsers`"},
	} {
		w.Refuse("CREATE_API_ONLY_USERS", c.params, c.code, c.says)
	}
	many := make([]any, 99)
	for i := range many {
		many[i] = robot(fmt.Sprint("many ", i))["apiOnlyUsers"].([]any)[0]
	}
	w.Refuse("CREATE_API_ONLY_USERS", object{"apiOnlyUsers": many}, 8, "at most 100 users")
	w.Run("CREATE_API_ONLY_USERS", object{"apiOnlyUsers": many[:98]})
	w.Refuse("CREATE_API_ONLY_USERS", robot("one more"), 8, "at most 100 users")
}

func verify(w *world, id string) {
	w.Alter(func(tx *org.Tx) {
		u := *w.UserOf(id)
		u.EmailVerified, u.PhoneVerified = true, true
		w.Must(tx.PutUser(&u))
	})
}

func TestUpdateUser(t *testing.T) {
	w := activitytest.New(t)
	alice := activitytest.User("Alice", activitytest.APIKey("a", w.FreshKey()))
	alice["userEmail"], alice["userPhoneNumber"] = "alice@example.org", "+15551234567"
	id := w.NewUser(alice)
	verify(w, id)
	one := w.Run("CREATE_USER_TAG", object{"userTagName": "one", "userIds": []any{id}})["userTagId"].(string)
	two := w.Run("CREATE_USER_TAG", object{"userTagName": "two", "userIds": []any{}})["userTagId"].(string)
	w.Now += 1000
	// What is absent or empty stays.
	if r := w.Run("UPDATE_USER", object{"userId": id, "userEmail": "", "userPhoneNumber": "+15551234567", "userName": nil, "userTagIds": []any{}}); r["userId"] != id {
		t.Error(r)
	}
	u := w.UserOf(id)
	if u.Name != "Alice" || u.Email != "alice@example.org" || !u.EmailVerified || !u.PhoneVerified || len(u.Tags) != 1 || u.UpdatedMs != activitytest.Start+1000 {
		t.Errorf("%+v", u)
	}
	w.Run("UPDATE_USER", object{"userId": id, "userName": "Bob", "userEmail": "bob@example.org", "userTagIds": []any{two}})
	u = w.UserOf(id)
	if u.Name != "Bob" || u.Email != "bob@example.org" || u.EmailVerified || u.Phone == "" || !u.PhoneVerified || len(u.Tags) != 1 || u.Tags[0].String() != two {
		t.Errorf("%+v", u)
	}
	verify(w, id)
	w.Run("UPDATE_USER", object{"userId": id, "userPhoneNumber": "+15557654321", "userEmail": "bob@example.org"})
	if u = w.UserOf(id); !u.EmailVerified {
		t.Error("the address is the one that was verified")
	}
	w.Run("UPDATE_USER", object{"userId": id, "userPhoneNumber": ""})
	if u = w.UserOf(id); u.Phone != "+15557654321" || u.PhoneVerified {
		t.Errorf("%+v", u)
	}
	w.NewUser(activitytest.User("Alice", activitytest.APIKey("a", w.FreshKey()))) // the name is free again
	nobody := w.NewID().String()
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
		w.Refuse("UPDATE_USER", c.params, c.code, c.says)
	}
}

func TestUpdateContacts(t *testing.T) {
	w := activitytest.New(t)
	for typ, c := range map[string]struct {
		field, first, second, bad, says string
		get                             func(*org.User) (string, bool)
	}{
		"UPDATE_USER_EMAIL":        {"userEmail", "a@example.org", "b@example.org", "b@", "invalid email address", func(u *org.User) (string, bool) { return u.Email, u.EmailVerified }},
		"UPDATE_USER_PHONE_NUMBER": {"userPhoneNumber", "+15551234567", "+15557654321", "0555", "telephone", func(u *org.User) (string, bool) { return u.Phone, u.PhoneVerified }},
	} {
		for _, value := range []string{c.first, c.second, "", c.first} {
			w.Run(typ, object{"userId": w.Root, c.field: value})
			if got, verified := c.get(w.UserOf(w.Root)); got != value || verified {
				t.Errorf("%s: %q %v, want %q", typ, got, verified, value)
			}
			verify(w, w.Root)
		}
		w.Run(typ, object{"userId": w.Root, c.field: c.first, "verificationToken": ""}) // given anew, and nothing shows whose it is
		if got, verified := c.get(w.UserOf(w.Root)); got != c.first || verified {
			t.Errorf("%s: %q %v", typ, got, verified)
		}
		nobody := w.NewID().String()
		w.Refuse(typ, object{"userId": nobody, c.field: c.first}, 5, "user not found: "+nobody)
		w.Refuse(typ, object{"userId": w.Root, c.field: c.bad}, 3, c.says)
		w.Refuse(typ, object{"userId": w.Root}, 3, "missing field `"+c.field+"`")
		w.Refuse(typ, object{"userId": w.Root, c.field: nil}, 3, "missing field `"+c.field+"`")
		w.Refuse(typ, object{c.field: c.first}, 3, "missing field `userId`")
		w.Refuse(typ, object{"userId": w.Root, c.field: c.second, "verificationToken": "x.y.z"}, 3, "invalid verification token")
	}
}

func TestDeleteUsers(t *testing.T) {
	w := activitytest.New(t)
	alice := activitytest.User("Alice", activitytest.APIKey("a", activitytest.SomeKey), activitytest.Expiring("b", w.FreshKey(), "900"))
	alice["authenticators"] = []any{activitytest.PasskeyOf(w, "p")}
	a, b, c := w.NewUser(alice), w.NewUser(activitytest.User("Bob", activitytest.APIKey("b", w.FreshKey()))), w.NewUser(activitytest.User("Carol", activitytest.APIKey("c", w.FreshKey())))
	rec := w.UserOf(a)
	n, err := w.Tx().Counter(rec.Authenticators[0].ID)
	w.Must(err)
	if n == 0 {
		t.Fatal("the passkey does not count")
	}
	invite := func(sender string) string {
		return activitytest.List(w.Run("CREATE_INVITATIONS", activitytest.Invitations(activitytest.Invitation("I"+sender[:4], sender))), "invitationIds")[0]
	}
	theirs, other := invite(a), invite(b)
	w.Alter(func(tx *org.Tx) {
		w.Must(tx.PutAllowlist(activitytest.SomeKey, &org.Allowlist{}))
		w.Must(tx.PutAllowlist("", &org.Allowlist{}))
	})
	nobody := w.NewID().String()
	for _, x := range []struct {
		ids  []any
		code fault.Code
		says string
	}{
		{[]any{w.Root}, 3, "quorum users missing"},
		{[]any{a, w.Root}, 3, "quorum users missing"},
		{[]any{nobody}, 5, "user not found: " + nobody},
		{[]any{a, nobody}, 5, "user not found: " + nobody},
		{[]any{a, a}, 3, "named twice"},
		{[]any{}, 3, "missing field `userIds`"},
	} {
		w.Refuse("DELETE_USERS", object{"userIds": x.ids}, x.code, x.says)
	}
	if got := activitytest.List(w.Run("DELETE_USERS", object{"userIds": []any{a, c}}), "userIds"); len(got) != 2 || got[0] != a || got[1] != c {
		t.Error(got)
	}
	if o := w.Organization(); o.Users != 2 || o.Invitations != 1 {
		t.Errorf("%+v", o)
	}
	if w.UserOf(a) != nil || w.UserOf(c) != nil || w.UserOf(b) == nil {
		t.Error("not those users are gone")
	}
	tx := w.Tx()
	for curve, keys := range map[string][]string{
		"API_KEY_CURVE_SECP256K1": {rec.APIKeys[0].PublicKey, rec.APIKeys[1].PublicKey},
		org.PasskeyCurve:          {hex.EncodeToString(rec.Authenticators[0].CredentialID)},
	} {
		for _, k := range keys {
			held, err := tx.Credential(curve, k)
			w.Must(err)
			if held != nil {
				t.Errorf("%s %s is known", curve, k)
			}
		}
	}
	if n, _ := tx.Counter(rec.Authenticators[0].ID); n != 0 {
		t.Error("the counter is there")
	}
	if l, _ := tx.Allowlist(activitytest.SomeKey); l != nil {
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
	w.NewUser(activitytest.User("Alice", activitytest.APIKey("a", activitytest.SomeKey))) // name and key are free
	// Even without a quorum somebody stays.
	w.Alter(func(tx *org.Tx) {
		o := *w.Organization()
		o.RootUsers, o.Users = []org.ID{w.NewID()}, 1
		w.Must(tx.PutOrganization(&o))
	})
	w.Refuse("DELETE_USERS", object{"userIds": []any{b}}, 3, "last user")
}

// A parent finds the users of its sub-organizations as they are now.
func TestLinksFollowUsers(t *testing.T) {
	w := activitytest.New(t)
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	found := func(what byte, value string, want bool) {
		t.Helper()
		ids, err := w.Tx().ChildrenBy(what, value, nil, 2)
		w.Must(err)
		if (len(ids) == 1 && ids[0] == sub.ID) != want {
			t.Errorf("%c %s: %v", what, value, ids)
		}
	}
	key := w.FreshKey()
	u := activitytest.User("U", activitytest.APIKey("k", key), activitytest.Expiring("e", activitytest.SomeKey, "900"))
	u["userEmail"], u["userPhoneNumber"] = "U@Example.org", "+15551234567"
	pass := activitytest.PasskeyOf(w, "p")
	u["authenticators"] = []any{pass}
	id := sub.NewUser(u)
	passkey := hex.EncodeToString(sub.UserOf(id).Authenticators[0].CredentialID)
	found(org.ChildFresh, org.PasskeyCurve+":"+passkey, true)
	verify := func() {
		before := sub.UserOf(id)
		after := *before
		after.EmailVerified, after.PhoneVerified = true, true
		sub.Alter(func(tx *org.Tx) { sub.Must(tx.PutUser(&after)) })
		w.Alter(func(tx *org.Tx) {
			w.Must(tx.LinkUser(&org.Child{ID: sub.ID, CreatedMs: sub.Organization().CreatedMs}, before, &after))
		})
	}
	// What the sub-organization says of itself is nobody's contact, and leads by no key.
	for _, what := range []byte{org.ChildProven, org.ChildVouched, org.ChildAlone, org.ChildBrief, org.ChildBefore} {
		found(what, "API_KEY_CURVE_SECP256K1:"+key, false)
		found(what, "API_KEY_CURVE_SECP256K1:"+activitytest.SomeKey, false)
	}
	found(org.ChildEmail, "u@example.org", false)
	found(org.ChildPhone, "+15551234567", false)
	verify()
	sub.Run("UPDATE_USER", object{"userId": id, "userName": "V"})
	found(org.ChildEmail, "u@example.org", true)
	found(org.ChildVerifiedEmail, "u@example.org", true)
	found(org.ChildPhone, "+15551234567", true)
	sub.Run("UPDATE_USER_EMAIL", object{"userId": id, "userEmail": "v@example.org"})
	found(org.ChildEmail, "u@example.org", false)
	found(org.ChildEmail, "v@example.org", false)
	verify()
	sub.Run("UPDATE_USER", object{"userId": id, "userEmail": "x@example.org"})
	found(org.ChildEmail, "v@example.org", false)
	sub.Run("UPDATE_USER_PHONE_NUMBER", object{"userId": id, "userPhoneNumber": ""})
	found(org.ChildPhone, "+15551234567", false)
	sub.Identity(id, "https://issuer.example", "s", "a")
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "a"), true)
	r := sub.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": id, "oauthProviders": []any{activitytest.Claims("https://issuer.example", "s", "b")}})
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "b"), true)
	sub.Run("DELETE_OAUTH_PROVIDERS", object{"userId": id, "providerIds": r["providerIds"]})
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "b"), false)
	sub.Run("DELETE_USERS", object{"userIds": []any{id}})
	found(org.ChildEmail, "x@example.org", false)
	found(org.ChildFresh, org.PasskeyCurve+":"+passkey, false)
	found(org.ChildIdentity, org.IdentityText("https://issuer.example", "s", "a"), false)
	if o := w.Organization(); o.Users != 1 {
		t.Errorf("%+v", o)
	}
}

// What a root user of a sub-organization can log in with last stays.
func TestTheLastMeansOfARootUserStay(t *testing.T) {
	w := activitytest.New(t)
	u := activitytest.RootUser("Mail")
	u["userEmail"] = "mail@example.org"
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, u))["subOrganizationId"])
	sub.Refuse("UPDATE_USER_EMAIL", object{"userId": sub.Root, "userEmail": ""}, 3, "last credential")
	sub.Run("UPDATE_USER_EMAIL", object{"userId": sub.Root, "userEmail": "other@example.org"})
	sub.Run("UPDATE_USER_PHONE_NUMBER", object{"userId": sub.Root, "userPhoneNumber": "+15551234567"})
	sub.Run("UPDATE_USER_EMAIL", object{"userId": sub.Root, "userEmail": ""})
	sub.Refuse("UPDATE_USER_PHONE_NUMBER", object{"userId": sub.Root, "userPhoneNumber": ""}, 3, "last credential")
	provider := sub.Identity(sub.Root, "https://issuer.example", "s", "a")
	sub.Run("UPDATE_USER_PHONE_NUMBER", object{"userId": sub.Root, "userPhoneNumber": ""})
	sub.Refuse("DELETE_OAUTH_PROVIDERS", object{"userId": sub.Root, "providerIds": []any{provider}}, 3, "last credential")
	// In a top-level organization nobody sends a passcode to an address.
	w.Run("UPDATE_USER_EMAIL", object{"userId": w.Root, "userEmail": "root@example.org"})
	w.Refuse("DELETE_API_KEYS", object{"userId": w.Root, "apiKeyIds": []any{w.RootKey(w.Tx()).String()}}, 3, "last credential")
	w.Identity(w.Root, "https://issuer.example", "r", "a")
	w.Run("DELETE_API_KEYS", object{"userId": w.Root, "apiKeyIds": []any{w.RootKey(w.Tx()).String()}})
}

// Policies see what an activity is about, and users may change their own
// credentials.
func TestWhatPoliciesSee(t *testing.T) {
	w := activitytest.New(t)
	member := func(name string, v policy.Value) policy.Member { return policy.Member{Name: name, Value: v} }
	key := activitytest.SomeID
	for _, c := range []struct {
		typ    string
		params any
		want   policy.Value
		self   bool
	}{
		{"DELETE_USERS", object{"userIds": []any{w.Root, key}}, policy.Struct(member("user_ids", policy.IDs([]string{key, w.Root}))), false},
		{"CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": []any{activitytest.APIKey("k", activitytest.SomeKey)}}, policy.Struct(member("user_id", policy.LowerHex(w.Root))), true},
		{"CREATE_API_KEYS", object{"userId": w.Root, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": activitytest.SomeP256}}}, policy.Struct(member("user_id", policy.LowerHex(w.Root))), true},
		{"CREATE_API_KEYS_V2", object{"userId": key, "apiKeys": []any{activitytest.APIKey("k", activitytest.SomeKey)}}, policy.Struct(member("user_id", policy.LowerHex(key))), false},
		{"DELETE_API_KEYS", object{"userId": w.Root, "apiKeyIds": []any{key}}, policy.Struct(member("user_id", policy.LowerHex(w.Root)), member("api_key_ids", policy.IDs([]string{key}))), true},
		{"CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.Root, "oauthProviders": []any{activitytest.Claims("i", "s", "a")}}, policy.Value{}, true},
		{"CREATE_OAUTH_PROVIDERS_V2", object{"userId": key, "oauthProviders": []any{activitytest.Claims("i", "s", "a")}}, policy.Value{}, false},
		{"DELETE_OAUTH_PROVIDERS", object{"userId": w.Root, "providerIds": []any{key}}, policy.Value{}, true},
		{"UPDATE_USER_NAME", object{"userId": w.Root, "userName": "x"}, policy.Value{}, false},
		{"UPDATE_USER_EMAIL", object{"userId": w.Root, "userEmail": ""}, policy.Value{}, false},
		{"UPDATE_USER", object{"userId": w.Root}, policy.Value{}, false},
	} {
		typ := "ACTIVITY_TYPE_" + c.typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.Must(err)
		in, err := v.Decode(activitytest.JSON(c.params))
		w.Must(err)
		r, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, false)
		w.Must(err)
		if !reflect.DeepEqual(r.Params, c.want) || r.SelfService != c.self || r.RootQuorum {
			t.Errorf("%s: %+v", c.typ, r)
		}
	}
}

func TestOlderUsersAreCarriedUp(t *testing.T) {
	w := activitytest.New(t)
	p256 := func(name string) object { return object{"apiKeyName": name, "publicKey": w.FreshP256()} }
	v1 := object{"userName": "one", "userEmail": "one@example.org", "accessType": "ACCESS_TYPE_API", "apiKeys": []any{p256("k")}, "authenticators": []any{}, "userTags": []any{}}
	v2 := object{"userName": "two", "apiKeys": []any{p256("k")}}
	v3 := object{"userName": "three", "userPhoneNumber": "+15551234567", "apiKeys": []any{activitytest.APIKey("k", w.FreshKey())}}
	for typ, u := range map[string]object{"CREATE_USERS": v1, "CREATE_USERS_V2": v2, "CREATE_USERS_V3": v3} {
		ids := activitytest.List(w.Run(typ, object{"users": []any{u}}), "userIds")
		id, _ := org.ParseID(ids[0])
		rec, err := w.Tx().User(id)
		w.Must(err)
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
	v1["userName"], v1["apiKeys"], v1["authenticators"] = "more", []any{}, []any{activitytest.Sample("AuthenticatorParams")}
	w.Refuse("CREATE_USERS", object{"users": []any{v1}}, 3, "invalid attestation")
	v3["userName"], v3["apiKeys"], v3["oauthProviders"] = "more", []any{}, []any{object{"providerName": "p", "oidcToken": "t"}}
	w.Refuse("CREATE_USERS_V3", object{"users": []any{v3}}, 3, "not a signed token")
	v3["oauthProviders"] = []any{activitytest.Claims("i", "s", "a")}
	w.Refuse("CREATE_USERS_V3", object{"users": []any{v3}}, 3, "oidcClaims")
	v2["userPhoneNumber"] = "+15551234567"
	w.Refuse("CREATE_USERS_V2", object{"users": []any{v2}}, 3, "userPhoneNumber")
}

func TestUserLimit(t *testing.T) {
	w := activitytest.New(t)
	many := func(n int) object {
		us := make([]any, n)
		for i := range us {
			us[i] = activitytest.User(fmt.Sprint("user ", n, " ", i), activitytest.APIKey("k", w.FreshKey()))
		}
		return object{"users": us}
	}
	w.Refuse("CREATE_USERS_V4", many(100), 8, "at most 100 users")
	w.Run("CREATE_USERS_V4", many(99))
	w.Refuse("CREATE_USERS_V4", many(1), 8, "at most 100 users")
}

func TestUpdateUserName(t *testing.T) {
	w := activitytest.New(t)
	w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.User("Alice", activitytest.APIKey("k", w.FreshKey()))}})
	w.Now += 1000
	if r := w.Run("UPDATE_USER_NAME", object{"userId": w.Root, "userName": "King"}); r["userId"] != w.Root {
		t.Error(r)
	}
	if u, _ := w.Tx().User(w.User); u.Name != "King" || u.UpdatedMs != activitytest.Start+1000 || u.CreatedMs != activitytest.Start {
		t.Errorf("%+v", u)
	}
	w.Run("UPDATE_USER_NAME", object{"userId": w.Root, "userName": "King"}) // its own name is free for it
	w.Refuse("UPDATE_USER_NAME", object{"userId": w.Root, "userName": "Alice"}, 3, "user label must be unique")
	other := w.NewID().String()
	w.Refuse("UPDATE_USER_NAME", object{"userId": other, "userName": "Nobody"}, 5, "user not found: "+other)
	w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.User("Root", activitytest.APIKey("k", w.FreshKey()))}}) // the old name is free
}

func TestCreateAPIKeys(t *testing.T) {
	w := activitytest.New(t)
	add := func(ks ...object) object { return object{"userId": w.Root, "apiKeys": ks} }
	ed := object{"apiKeyName": "ed", "publicKey": strings.Repeat("ab", 32), "curveType": "API_KEY_CURVE_ED25519"}
	if ids := activitytest.List(w.Run("CREATE_API_KEYS_V2", add(ed, activitytest.APIKey("k", w.FreshKey()))), "apiKeyIds"); len(ids) != 2 {
		t.Error(ids)
	}
	if c, _ := w.Tx().Credential("API_KEY_CURVE_ED25519", strings.Repeat("ab", 32)); c == nil || c.User != w.User {
		t.Errorf("%+v", c)
	}
	w.Run("CREATE_API_KEYS", object{"userId": w.Root, "apiKeys": []any{object{"apiKeyName": "old", "publicKey": w.FreshP256()}}})
	w.Refuse("CREATE_API_KEYS", object{"userId": w.Root, "apiKeys": []any{ed}}, 3, "")
	w.Refuse("CREATE_API_KEYS_V2", add(ed), 3, "must be unique")
	other := w.NewID().String()
	w.Refuse("CREATE_API_KEYS_V2", object{"userId": other, "apiKeys": []any{activitytest.APIKey("k", w.FreshKey())}}, 5, "user not found: "+other)

	var long []object
	for i := range 7 {
		long = append(long, activitytest.APIKey(fmt.Sprint(i), w.FreshKey()))
	}
	w.Refuse("CREATE_API_KEYS_V2", add(long...), 8, "user has exceeded maximum long-lived api keys")
	w.Run("CREATE_API_KEYS_V2", add(long[:6]...))
	w.Refuse("CREATE_API_KEYS_V2", add(long[6]), 8, "user has exceeded maximum long-lived api keys")
}

func TestExpiringKeysAreEvicted(t *testing.T) {
	w := activitytest.New(t)
	add := func(seconds string) string {
		t.Helper()
		public := w.FreshKey()
		w.Run("CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": []any{activitytest.Expiring("e", public, seconds)}})
		w.Now += 1000
		return public
	}
	known := func(public string) bool {
		c, err := w.Tx().Credential("API_KEY_CURVE_SECP256K1", public)
		w.Must(err)
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
	w.Now += 60_000
	add("10000") // the eleventh: the expired one goes first
	if known(short) || !known(oldest) {
		t.Error("not the expired one")
	}
	add("10000")
	if known(oldest) || !known(second) {
		t.Error("not the oldest one")
	}
	u, _ := w.Tx().User(w.User)
	if len(u.APIKeys) != 11 || u.APIKeys[0].ExpirationSeconds != 0 {
		t.Errorf("%d keys", len(u.APIKeys))
	}
	var eleven []any
	for range 11 {
		eleven = append(eleven, activitytest.Expiring("e", w.FreshKey(), "5"))
	}
	w.Refuse("CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": eleven}, 8, "user has exceeded maximum short-lived api keys")
	w.Run("CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": eleven[:10]})
	if u, _ := w.Tx().User(w.User); len(u.APIKeys) != 11 || u.APIKeys[1].ExpirationSeconds != 5 {
		t.Errorf("%+v", u.APIKeys)
	}
}

func TestDeleteAPIKeys(t *testing.T) {
	w := activitytest.New(t)
	first := w.RootKey(w.Tx()).String()
	del := func(ids ...string) object { return object{"userId": w.Root, "apiKeyIds": ids} }
	w.Refuse("DELETE_API_KEYS", del(first), 3, "last credential")
	temporary := activitytest.List(w.Run("CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": []any{activitytest.Expiring("e", w.FreshKey(), "5")}}), "apiKeyIds")[0]
	w.Refuse("DELETE_API_KEYS", del(first), 3, "last credential")
	w.Run("DELETE_API_KEYS", del(temporary))
	second := activitytest.List(w.Run("CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": []any{activitytest.APIKey("s", activitytest.SomeKey)}}), "apiKeyIds")[0]
	w.Refuse("DELETE_API_KEYS", del(first, second), 3, "last credential")
	w.Refuse("DELETE_API_KEYS", del(second, second), 3, "named twice")
	other := w.NewID().String()
	w.Refuse("DELETE_API_KEYS", del(second, other), 5, "api key not found: "+other)
	w.Refuse("DELETE_API_KEYS", object{"userId": other, "apiKeyIds": []any{second}}, 5, "user not found: "+other)
	if got := activitytest.List(w.Run("DELETE_API_KEYS", del(first)), "apiKeyIds"); len(got) != 1 || got[0] != first {
		t.Error(got)
	}
	if c, _ := w.Tx().Credential("API_KEY_CURVE_P256", activitytest.SomeP256); c != nil {
		t.Error("the deleted key is known")
	}
	if c, _ := w.Tx().Credential("API_KEY_CURVE_SECP256K1", activitytest.SomeKey); c == nil {
		t.Error("the other key is gone")
	}
	// Whoever is not of the root quorum may lose the last key; nobody else's key
	// can be named.
	ids := activitytest.List(w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.User("Bob", activitytest.APIKey("b", w.FreshKey()))}}), "userIds")
	id, _ := org.ParseID(ids[0])
	bob, _ := w.Tx().User(id)
	w.Refuse("DELETE_API_KEYS", del(bob.APIKeys[0].ID.String()), 5, "api key not found")
	w.Run("DELETE_API_KEYS", object{"userId": ids[0], "apiKeyIds": []any{bob.APIKeys[0].ID.String()}})
}

// One text is one key, also where it is a point of two curves: what is said of
// keys by their text, such as a list of addresses, is then said of one. The list
// goes with the key.
func TestOneTextIsOneKey(t *testing.T) {
	w, other := activitytest.New(t), activitytest.New(t)
	both := "" // a number that is x of a point on both curves
	for i := 1; both == ""; i++ {
		x := fmt.Sprintf("02%064x", i)
		_, k := w.Try("CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": []any{activitytest.APIKey("k", x)}})
		_, p := other.Try("CREATE_API_KEYS", object{"userId": other.Root, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": x}}})
		if k == nil && p == nil {
			both = x
		}
	}
	w.Refuse("CREATE_API_KEYS", object{"userId": w.Root, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": both}}}, 3, "must be unique")
	other.Refuse("CREATE_API_KEYS_V2", object{"userId": other.Root, "apiKeys": []any{activitytest.APIKey("k", both)}}, 3, "must be unique")
	w.Alter(func(tx *org.Tx) { w.Must(tx.PutAllowlist(both, &org.Allowlist{Enabled: true})) })
	ks := w.UserOf(w.Root).APIKeys
	w.Run("DELETE_API_KEYS", object{"userId": w.Root, "apiKeyIds": []any{ks[len(ks)-1].ID.String()}})
	if l, err := w.Tx().Allowlist(both); err != nil || l != nil {
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
