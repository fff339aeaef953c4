package activity_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
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
		{with("authenticators", []any{sample("AuthenticatorParamsV2")}), 12, "UNIMPLEMENTED: create_users with authenticators"},
		{with("oauthProviders", []any{object{"providerName": "p", "oidcToken": "t"}}), 12, "UNIMPLEMENTED: create_users with oauthProviders"},
	} {
		w.refused("CREATE_USERS_V4", c.params, c.code, c.says)
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
	v1["authenticators"] = []any{sample("AuthenticatorParams")}
	w.refused("CREATE_USERS", object{"users": []any{v1}}, 12, "authenticators")
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
