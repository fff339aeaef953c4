package proxy_test

import (
	"strings"
	"testing"

	"cloister/sim/client"
	"cloister/sim/rig"
)

func TestSignupWithAPIKeyAndWallet(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	for _, op := range []string{"signup", "signup_v2"} {
		for name, form := range map[string]func(any) any{"camelCase": func(v any) any { return v }, "snake_case": snake} {
			k := client.NewKey()
			body := signup(object{"userName": "Ada", "organizationName": "Ada's", "userEmail": "ada@example.com", "apiKeys": list(key(k)), "wallet": wallet})
			got := w.ok(op, form(body))
			id, user := client.Text(got, "organizationId"), client.Text(got, "userId")
			if address := client.Text(got, "wallet", "addresses", "0"); !strings.HasPrefix(address, "0x") || client.Get(got, "wallet", "walletId") == nil {
				t.Errorf("%s %s: wallet %v", op, name, got["wallet"])
			}
			proofs, _ := got["appProofs"].([]any)
			if len(proofs) < 2 || client.Get(proofs, "0", "proofPayload") == nil || client.Get(proofs, "0", "signature") == nil {
				t.Errorf("%s %s: proofs %v", op, name, proofs)
			}
			if len(got) != 4 {
				t.Errorf("%s %s answers %v", op, name, got)
			}
			who := w.root.As(id, user, k).Read("whoami", nil)
			if client.Text(who, "userId") != user || client.Text(who, "username") != "Ada" || client.Text(who, "organizationName") != "Ada's" {
				t.Errorf("%s %s: whoami %v", op, name, who)
			}
			// The new key is asked about in the parent, as clients do after a sign-up.
			found := w.ok("account", object{"filterType": "PUBLIC_KEY", "filterValue": k.PublicKey})
			if client.Text(found, "organizationId") != id {
				t.Errorf("%s %s: account %v", op, name, found)
			}
			if e := client.Text(w.root.As(id, user, k).Read("get_user", object{"userId": user}), "user", "userEmail"); e != "ada@example.com" {
				t.Errorf("%s %s: email %q", op, name, e)
			}
		}
	}
}

func TestSignupWithPasskey(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	a, params := w.passkey()
	got := w.ok("signup_v2", signup(object{"authenticators": list(params)}))
	id := client.Text(got, "organizationId")
	if got["wallet"] != nil {
		t.Errorf("a wallet that nobody asked for: %v", got)
	}
	u := w.root.As(id, "", client.KeyPair{})
	u.Stamp = client.ByPasskey(a)
	who := u.Read("whoami", nil)
	if client.Text(who, "userId") != client.Text(got, "userId") || !strings.HasPrefix(client.Text(who, "username"), "user-") || !strings.HasPrefix(client.Text(who, "organizationName"), "sub-org-") {
		t.Errorf("whoami %v", who)
	}
	credential := client.Text(params, "attestation", "credentialId")
	if found := w.ok("account", object{"filterType": "CREDENTIAL_ID", "filterValue": credential}); client.Text(found, "organizationId") != id {
		t.Errorf("account %v", found)
	}
	w.refused("the passkey once more", w.ask("signup_v2", signup(object{"authenticators": list(params)})), 400, "another sub-organization")
}

// The first description of the interface had wallets by path and curve.
func TestSignupWithWalletByPath(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	got := w.ok("signup", signup(object{"apiKeys": list(key(client.NewKey())), "wallet": object{"path": "m/44'/501'/0'/0'", "curve": "CURVE_TYPE_ED25519"}}))
	if address := client.Text(got, "wallet", "addresses", "0"); len(address) < 32 || len(address) > 44 {
		t.Errorf("%v", got)
	}
}

func TestSameSignupTwiceIsTwoActivities(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	k := client.NewKey()
	body := signup(object{"apiKeys": list(key(k))})
	first, second := client.Text(w.ok("signup", body), "organizationId"), client.Text(w.ok("signup", body), "organizationId")
	// As the only way in, a key that nobody has shown to be his stands in nobody's way, and leads into the newest.
	if first == second || client.Text(w.ok("account", object{"filterType": "PUBLIC_KEY", "filterValue": k.PublicKey}), "organizationId") != second {
		t.Errorf("%s, %s", first, second)
	}
	w.logIn(k, first)
	w.refused("a key that has stamped in another sub-organization", w.ask("signup", body), 400, "another sub-organization")
	// Many at once, with equal words but for the key.
	const n = 20
	ids := make(chan string, n)
	for range n {
		go func() {
			r := w.ask("signup", signup(object{"userName": "Same", "organizationName": "Same", "apiKeys": list(key(client.NewKey()))}))
			ids <- r.Text("organizationId")
		}()
	}
	seen := map[string]bool{}
	for range n {
		id := <-ids
		if seen[id] || id == "<nil>" {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
	}
}

func TestSignupsThatAreRefused(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	k := key(client.NewKey())
	with := func(name string, value any) object {
		return signup(object{"apiKeys": list(k), name: value})
	}
	bad := object{"apiKeyName": "Key", "publicKey": "02zz", "curveType": "API_KEY_CURVE_P256"}
	for _, c := range []struct {
		what   string
		body   any
		status int
		says   string
		field  string
	}{
		{"no body", "", 400, "", ""},
		{"no object", "[]", 400, "", ""},
		{"null", "null", 400, "", ""},
		{"trailing text", "{}{}", 400, "", ""},
		{"no way to log in", signup(nil), 400, "at least one credential or a verified contact", "apiKeys"},
		{"an unverified contact alone", signup(object{"userEmail": "a@example.com"}), 400, "at least one credential or a verified contact", "apiKeys"},
		{"an unknown member", with("nonsense", 1), 400, "unknown field", "nonsense"},
		{"a member in both spellings", `{"userName":"a","user_name":"b","apiKeys":[]}`, 400, "repeated field", "userName"},
		{"a member twice", `{"userName":"a","userName":"b","apiKeys":[]}`, 400, "repeated field", "userName"},
		{"a name of another type", with("userName", 7), 400, "", "userName"},
		{"a name that is none", with("userName", " x"), 400, "", "userName"},
		{"a name too long", with("userName", strings.Repeat("x", 256)), 400, "", "userName"},
		{"an organization's name that is none", with("organizationName", "a\nb"), 400, "", "organizationName"},
		{"an address that is none", with("userEmail", "nobody"), 400, "", "userEmail"},
		{"a number that is none", with("userPhoneNumber", "0049"), 400, "", "userPhoneNumber"},
		{"a key without a curve", signup(object{"apiKeys": list(object{"apiKeyName": "Key", "publicKey": k["publicKey"]})}), 400, "", "apiKeys.0.curveType"},
		{"a key that is none", signup(object{"apiKeys": list(bad)}), 400, "", "apiKeys.0.publicKey"},
		{"a wallet without a name", with("wallet", object{"accounts": list()}), 400, "missing wallet params", "wallet.walletName"},
		{"a wallet of both kinds", with("wallet", object{"walletName": "W", "path": "m/0", "curve": "CURVE_ED25519", "accounts": wallet["accounts"]}), 400, "either accounts", "wallet.accounts"},
		{"a wallet of no curve", with("wallet", object{"path": "m/0", "curve": "CURVE_X"}), 400, "invalid curve", "wallet.curve"},
		{"a wallet of no path", with("wallet", object{"curve": "CURVE_ED25519"}), 400, "invalid path", "wallet.path"},
		{"a wallet of a bad path", with("wallet", object{"path": "x", "curve": "CURVE_ED25519"}), 400, "invalid path", "wallet.accounts.0.path"},
		{"eleven words", with("wallet", object{"walletName": "W", "accounts": list(), "mnemonicLength": 11}), 400, "invalid mnemonic length", "wallet.mnemonicLength"},
		{"a passkey that is none", signup(object{"authenticators": list(object{"authenticatorName": "P", "challenge": "x", "attestation": object{
			"credentialId": "eA", "clientDataJson": "e30", "attestationObject": "oA", "transports": list()}})}), 400, "", ""},
		{"a tag", with("userTag", "x"), 501, "UNIMPLEMENTED: signup with userTag", ""},
		{"a client signature that is a text", with("clientSignature", "00"), 400, "", "clientSignature"},
		{"a body too large", with("userTag", strings.Repeat("x", 200<<10)), 400, "too large", ""},
		{"too deep", `{"apiKeys":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", 400, "", ""},
		{"too many keys", signup(object{"apiKeys": manyKeys(11)}), 429, "maximum long-lived api keys", ""},
	} {
		for name, form := range map[string]func(any) any{"camelCase": func(v any) any { return v }, "snake_case": snake} {
			r := w.ask("signup", form(c.body))
			w.refused(c.what+" in "+name, r, c.status, c.says)
			if c.field != "" && !strings.Contains(string(r.Body), `"field":"`+c.field+`"`) && name == "camelCase" {
				t.Errorf("%s: %s, want the field %s", c.what, r, c.field)
			}
		}
	}
}

func manyKeys(n int) (ks []any) {
	for range n {
		ks = append(ks, key(client.NewKey()))
	}
	return ks
}
