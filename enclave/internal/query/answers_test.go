package query_test

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
)

func TestWhoami(t *testing.T) {
	w := newWorld(t)
	want := object{"organizationId": w.id.String(), "organizationName": "Org", "userId": w.user.ID.String(), "username": "User 1"}
	if got := w.get("whoami", nil); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	// A parent's user is told of home, not of the organization asked about.
	home := &org.Organization{ID: id('O', 9), Name: "Home"}
	got, err := w.askAs("whoami", nil, &org.User{ID: id('U', 9), Name: "Parent"}, home)
	w.must(err)
	if !reflect.DeepEqual(got, object{"organizationId": home.ID.String(), "organizationName": "Home", "userId": id('U', 9).String(), "username": "Parent"}) {
		t.Error(got)
	}
}

func TestGetOrganizationConfigs(t *testing.T) {
	w := newWorld(t)
	want := object{"configs": object{
		"features": []any{object{"name": "FEATURE_NAME_EMAIL_AUTH"}, object{"name": "FEATURE_NAME_WEBHOOK", "value": "https://example.org"}},
		"quorum":   object{"threshold": 1.0, "userIds": []any{id('U', 1).String(), id('U', 2).String()}},
	}}
	if got := w.get("get_organization_configs", nil); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
}

func TestUsers(t *testing.T) {
	w := newWorld(t)
	if got := pick(w.get("list_users", nil)["users"], "userName"); !reflect.DeepEqual(got, []string{"User 3", "User 2", "User 1"}) {
		t.Errorf("not in order of creation: %v", got)
	}
	u := w.get("get_user", object{"userId": id('U', 1).String()})["user"].(object)
	if u["userEmail"] != "u@example.org" || u["userPhoneNumber"] != "+15551234567" || len(u["apiKeys"].([]any)) != 2 || u["userTags"].([]any)[0] != id('T', 1).String() || u["createdAt"].(object)["seconds"] != "9" {
		t.Error(u)
	}
	u = w.get("get_user", object{"userId": strings.ToUpper(id('U', 2).String())})["user"].(object)
	if _, ok := u["userEmail"]; ok || u["userName"] != "User 2" {
		t.Error(u)
	}
	w.refused("get_user", object{"userId": id('U', 9).String()}, 5, "user not found: "+id('U', 9).String())
	w.refused("get_user", object{"userId": "User 1"}, 3, "UUID")
}

func TestAPIKeys(t *testing.T) {
	w := newWorld(t)
	k := w.get("get_api_key", object{"apiKeyId": id('L', 2).String()})["apiKey"].(object)
	if k["apiKeyName"] != "session" || k["expirationSeconds"] != "900" || k["credential"].(object)["publicKey"] != "02cd" {
		t.Error(k)
	}
	if _, ok := k["credential"].(object)["sessionProfileId"]; ok {
		t.Error(k)
	}
	k = w.get("get_api_key", object{"apiKeyId": id('K', 2).String()})["apiKey"].(object)
	if _, ok := k["expirationSeconds"]; ok {
		t.Error(k)
	}
	w.change(func(tx *org.Tx) {
		u := *w.user
		u.APIKeys = []org.APIKey{u.APIKeys[0], u.APIKeys[1]}
		u.APIKeys[1].Profile = id('S', 1)
		w.must(tx.PutUser(&u))
	})
	k = w.get("get_api_key", object{"apiKeyId": id('L', 1).String()})["apiKey"].(object)
	if k["credential"].(object)["sessionProfileId"] != id('S', 1).String() {
		t.Error(k)
	}
	order := func(l ...org.ID) (ids []string) {
		for _, i := range l {
			ids = append(ids, i.String())
		}
		return ids
	}
	if got := pick(w.get("get_api_keys", nil)["apiKeys"], "apiKeyId"); !reflect.DeepEqual(got, order(id('K', 3), id('K', 2), id('K', 1), id('L', 3), id('L', 2), id('L', 1))) {
		t.Error(got)
	}
	if got := pick(w.get("get_api_keys", object{"userId": id('U', 2).String()})["apiKeys"], "apiKeyId"); !reflect.DeepEqual(got, order(id('K', 2), id('L', 2))) {
		t.Error(got)
	}
	w.refused("get_api_key", object{"apiKeyId": id('K', 9).String()}, 5, "api key not found: "+id('K', 9).String())
	w.refused("get_api_key", object{"apiKeyId": "x"}, 3, "UUID")
	w.refused("get_api_keys", object{"userId": id('U', 9).String()}, 5, "user not found")
	w.refused("get_api_keys", object{"userId": "x"}, 3, "UUID")
}

func TestOauthProviders(t *testing.T) {
	w := newWorld(t)
	if got := pick(w.get("get_oauth_providers", nil)["oauthProviders"], "providerName"); !reflect.DeepEqual(got, []string{"Provider 2", "Provider 1"}) {
		t.Errorf("not in order of creation: %v", got)
	}
	at := func(s string) object { return object{"seconds": s, "nanos": "0"} }
	want := []any{object{"providerId": id('I', 1).String(), "providerName": "Provider 1", "issuer": "https://issuer.example", "audience": "client", "subject": "s1", "createdAt": at("49"), "updatedAt": at("51")}}
	if got := w.get("get_oauth_providers", object{"userId": id('U', 1).String()})["oauthProviders"]; !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	if got := w.get("get_user", object{"userId": id('U', 1).String()})["user"].(object)["oauthProviders"]; !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	if got := w.get("get_oauth_providers", object{"userId": id('U', 3).String()})["oauthProviders"].([]any); len(got) != 0 {
		t.Error(got)
	}
	w.refused("get_oauth_providers", object{"userId": id('U', 9).String()}, 5, "user not found")
	w.refused("get_oauth_providers", object{"userId": "x"}, 3, "UUID")
}

func TestTags(t *testing.T) {
	w := newWorld(t)
	at := func(s string) object { return object{"seconds": s, "nanos": "0"} }
	for op, c := range map[string]struct {
		member, typ string
		n           byte
	}{"list_user_tags": {"userTags", "TAG_TYPE_USER", 1}, "list_private_key_tags": {"privateKeyTags", "TAG_TYPE_PRIVATE_KEY", 2}} {
		want := []any{
			object{"tagId": id('T', c.n+2).String(), "tagName": "older tag", "tagType": c.typ, "createdAt": at("0"), "updatedAt": at("0")},
			object{"tagId": id('T', c.n).String(), "tagName": "tag", "tagType": c.typ, "createdAt": at("1"), "updatedAt": at("2")},
		}
		if got := w.get(op, nil)[c.member]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", op, got)
		}
	}
}

func TestPrivateKeys(t *testing.T) {
	w := newWorld(t)
	if got := pick(w.get("list_private_keys", nil)["privateKeys"], "privateKeyName"); !reflect.DeepEqual(got, []string{"Key 3", "Key 2", "Key 1"}) {
		t.Error(got)
	}
	k := w.get("get_private_key", object{"privateKeyId": id('P', 2).String()})["privateKey"].(object)
	if k["exported"] != true || k["imported"] != false || k["curve"] != "CURVE_SECP256K1" || k["privateKeyTags"].([]any)[0] != id('T', 2).String() ||
		!reflect.DeepEqual(k["addresses"], []any{object{"format": "ADDRESS_FORMAT_ETHEREUM", "address": "0xAb"}}) {
		t.Error(k)
	}
	w.refused("get_private_key", object{"privateKeyId": id('P', 9).String()}, 5, "private key not found")
}

func TestWallets(t *testing.T) {
	w := newWorld(t)
	if got := w.get("list_wallets", nil)["wallets"].([]any); len(got) != 0 {
		t.Error(got)
	}
	w.wallet(1, 5000, 0)
	w.wallet(2, 4000, 0)
	w.wallet(3, 5000, 0)
	if got := pick(w.get("list_wallets", nil)["wallets"], "walletName"); !reflect.DeepEqual(got, []string{"Wallet 2", "Wallet 1", "Wallet 3"}) {
		t.Error(got)
	}
	if got := w.get("get_wallet", object{"walletId": id('W', 1).String()})["wallet"].(object); got["walletName"] != "Wallet 1" || got["exported"] != false || got["keysExported"] != nil {
		t.Error(got)
	}
	w.change(func(tx *org.Tx) {
		rec, err := tx.Wallet(id('W', 1))
		w.must(err)
		changed := *rec
		changed.KeysOut = true
		w.must(tx.PutWallet(&changed))
	})
	if got := w.get("get_wallet", object{"walletId": id('W', 1).String()})["wallet"].(object); got["exported"] != false || got["keysExported"] != true {
		t.Errorf("an account's key was exported: %v", got)
	}
	w.refused("get_wallet", object{"walletId": id('W', 9).String()}, 5, "wallet not found: "+id('W', 9).String())
}

func TestGetWalletAccount(t *testing.T) {
	w := newWorld(t)
	one := w.wallet(1, 1000, 3)
	two := w.wallet(2, 2000, 3) // has the same addresses
	w.change(func(tx *org.Tx) {
		a := *w.account(one, 4)
		a.Path, a.Format, a.Address, a.Name = "m/2", "ADDRESS_FORMAT_COMPRESSED", "02aa", "Named"
		w.must(tx.PutAccount(&a, a.Address))
	})
	for _, rec := range []*org.Wallet{one, two} {
		for _, q := range []object{{"address": address(0xab)}, {"address": "0xabc"}, {"path": "m/9"}, {"path": "m/1", "address": address(2)}, {"address": address(2), "path": "m/2'"}} {
			q["walletId"] = rec.ID.String()
			w.refused("get_wallet_account", q, 5, "wallet account not found")
		}
		for _, q := range []object{{"address": address(2)}, {"address": strings.Replace(strings.ToLower(address(2)), "0X", "0x", 1)}, {"path": "m/2"}, {"path": "m/2", "address": address(2)}, {"path": "m/2", "address": ""}} {
			q["walletId"] = rec.ID.String()
			a := w.get("get_wallet_account", q)["account"].(object)
			if a["walletId"] != rec.ID.String() || a["address"] != address(2) || a["path"] != "m/2" || a["organizationId"] != w.id.String() || a["publicKey"] != "02aa" || a["walletDetails"] != nil || a["name"] != nil {
				t.Errorf("%v: %v", q, a)
			}
		}
		w.refused("get_wallet_account", object{"walletId": rec.ID.String()}, 3, "address or path")
		w.refused("get_wallet_account", object{"walletId": rec.ID.String(), "address": "", "path": nil}, 3, "address or path")
	}
	a := w.get("get_wallet_account", object{"walletId": one.ID.String(), "address": "02aa"})["account"].(object)
	if a["name"] != "Named" {
		t.Error(a)
	}
	w.refused("get_wallet_account", object{"walletId": two.ID.String(), "address": "02aa"}, 5, "wallet account not found")
	w.refused("get_wallet_account", object{"walletId": id('W', 9).String(), "path": "m/1"}, 5, "wallet not found")
}

func TestListWalletAccounts(t *testing.T) {
	w := newWorld(t)
	late, early, none := w.wallet(1, 9000, 120), w.wallet(2, 1000, 15), w.wallet(3, 5000, 0)
	w.change(func(tx *org.Tx) { // a gap
		for no := uint64(20); no < 90; no++ {
			tx.DeleteAccount(w.account(late, no), "0x"+strings.ToLower(address(int(no))[2:]))
		}
	})
	var all []string
	for i := uint64(1); i <= 15; i++ {
		all = append(all, w.account(early, i).ID().String())
	}
	for i := uint64(1); i <= 120; i++ {
		if i < 20 || i >= 90 {
			all = append(all, w.account(late, i).ID().String())
		}
	}
	ids := func(request object) []string {
		t.Helper()
		return pick(w.get("list_wallet_accounts", request)["accounts"], "walletAccountId")
	}
	page := func(limit any, more ...string) object {
		p := object{"limit": limit}
		for i := 0; i+1 < len(more); i += 2 {
			p[more[i]] = more[i+1]
		}
		return object{"paginationOptions": p}
	}
	if got := ids(nil); !reflect.DeepEqual(got, all[:10]) {
		t.Error(got)
	}
	for _, limit := range []int{1, 7, 10, 64, 65, 66, 100} {
		var got []string
		request := page(fmt.Sprint(limit))
		for {
			l := ids(request)
			got = append(got, l...)
			if len(l) < limit {
				break
			}
			request = page(fmt.Sprint(limit), "after", l[len(l)-1])
		}
		if !reflect.DeepEqual(got, all) {
			t.Errorf("by %d: %d rows instead of %d", limit, len(got), len(all))
		}
		for _, at := range []int{0, 1, 14, 15, 16, 34, 40, len(all) - 1} {
			if got := ids(page(fmt.Sprint(limit), "before", all[at])); strings.Join(got, " ") != strings.Join(all[max(0, at-limit):at], " ") {
				t.Errorf("%d before %d: %d rows", limit, at, len(got))
			}
		}
	}
	// By address. Both wallets have the first one, and the account that signs for it is shown, unless a wallet is named.
	for i, want := range map[int]*org.Wallet{1: late, 95: late} {
		for _, a := range []string{address(i), strings.ToLower(address(i))} {
			l := w.get("list_wallet_accounts", object{"address": a, "includeWalletDetails": true})["accounts"].([]any)
			if len(l) != 1 || l[0].(object)["address"] != address(i) || l[0].(object)["walletDetails"].(object)["walletId"] != want.ID.String() {
				t.Errorf("%s: %v", a, l)
			}
		}
	}
	if got := ids(object{"address": address(1), "walletId": early.ID.String()}); !slices.Equal(got, all[:1]) {
		t.Errorf("the wallet's account: %v", got)
	}
	if got := ids(object{"address": address(95), "walletId": early.ID.String()}); len(got) != 0 {
		t.Errorf("an account of another wallet: %v", got)
	}
	for _, a := range []string{address(50), address(500), "no address"} { // deleted, never there
		if got := ids(object{"address": a}); len(got) != 0 {
			t.Errorf("%s: %v", a, got)
		}
	}
	w.refused("list_wallet_accounts", object{"address": address(1), "paginationOptions": object{"after": all[0]}}, 3, "address and a cursor")
	one := page("100")
	one["walletId"], one["includeWalletDetails"] = early.ID.String(), true
	l := w.get("list_wallet_accounts", one)["accounts"].([]any)
	if len(l) != 15 || l[0].(object)["walletDetails"].(object)["walletName"] != "Wallet 2" {
		t.Error(l)
	}
	if got := ids(object{"walletId": none.ID.String(), "includeWalletDetails": false}); len(got) != 0 {
		t.Error(got)
	}
	one["paginationOptions"] = object{"after": all[20]}
	w.refused("list_wallet_accounts", one, 3, "unknown cursor") // a row of the other wallet
	for _, limit := range []any{"0", "101", "-1", "x", "1.0", "99999999999999999999", "+5"} {
		w.refused("list_wallet_accounts", page(limit), 3, "limit must be 1 to 100")
	}
	gone := w.account(late, 50).ID().String()
	for _, c := range []string{"x", id('W', 9).String(), gone, late.ID.String()} {
		w.refused("list_wallet_accounts", page("5", "after", c), 3, "unknown cursor")
		w.refused("list_wallet_accounts", page("5", "before", c), 3, "unknown cursor")
	}
	w.refused("list_wallet_accounts", page("5", "before", all[3], "after", all[1]), 3, "before and after")
	w.refused("list_wallet_accounts", object{"walletId": id('W', 9).String()}, 5, "wallet not found")
}

func TestActivities(t *testing.T) {
	w := newWorld(t)
	body := fmt.Sprintf(`{"type":"ACTIVITY_TYPE_UPDATE_WALLET","timestampMs":"1","organizationId":"%s","parameters":{"walletId":"%s"}}`, w.id, id('W', 1))
	for n := byte(1); n <= 3; n++ {
		w.entries = append(w.entries, &org.Entry{
			Activity: id('A', n), Type: "ACTIVITY_TYPE_UPDATE_WALLET", Status: org.StatusCompleted, Body: []byte(body), CreatedMs: 1000, TimeMs: 2000,
			Votes:  []org.Vote{{ID: id('V', n), User: w.user.ID, UserName: "User 1", PublicKey: "02", Signature: "30", Scheme: "S", CreatedMs: 1000}},
			Result: []byte(`{"updateWalletResult":{"walletId":"x"}}`),
			Proofs: []org.Proof{{Key: []byte{4}, Payload: []byte("{}"), Signature: []byte{5}}},
		})
	}
	get := object{"activityId": id('A', 2).String()}
	a := w.get("get_activity", get)["activity"].(object)
	if a["id"] != id('A', 2).String() || a["canApprove"] != false || a["canReject"] != true || a["organizationId"] != w.id.String() || len(a["appProofs"].([]any)) != 1 {
		t.Error(a)
	}
	if u := a["votes"].([]any)[0].(object)["user"].(object); len(u["apiKeys"].([]any)) != 2 {
		t.Error(u)
	}
	// Another root member may vote, another user may not, a parent never.
	for _, c := range []struct {
		who         byte
		home        *org.Organization
		approve, no bool
	}{{2, nil, true, true}, {3, nil, false, false}, {1, &org.Organization{ID: id('O', 9)}, false, false}} {
		u, err := w.tx().User(id('U', c.who))
		w.must(err)
		m, err := w.askAs("get_activity", get, u, c.home)
		w.must(err)
		if a := m["activity"].(object); a["canApprove"] != c.approve || a["canReject"] != c.no {
			t.Errorf("user %d: %v %v", c.who, a["canApprove"], a["canReject"])
		}
	}
	if p := w.get("list_app_proofs", get)["appProofs"]; !reflect.DeepEqual(p, []any{object{"scheme": "SIGNATURE_SCHEME_EPHEMERAL_KEY_P256", "publicKey": "04", "proofPayload": "{}", "signature": "05"}}) {
		t.Error(p)
	}
	// It changed records, which are others now: there is nothing to decode, whoever asks. Only who asks has memory reserved.
	w.refused("get_activity", object{"activityId": id('A', 2).String(), "includeDecoded": "true"}, 3, "")
	w.refused("get_activity", object{"activityId": id('A', 9).String(), "includeDecoded": true}, 5, "activity not found: "+id('A', 9).String())
	if w.toDecode != 1 {
		t.Errorf("decoded %d times", w.toDecode)
	}
	if got := w.get("get_activity", object{"activityId": id('A', 2).String(), "includeDecoded": true})["activity"]; !reflect.DeepEqual(got, any(a)) || w.toDecode != 2 {
		t.Errorf("%v", got)
	}
	w.entries[0].Proofs = nil
	if p := w.get("list_app_proofs", object{"activityId": id('A', 1).String()})["appProofs"].([]any); len(p) != 0 {
		t.Error(p)
	}
	for _, op := range []string{"get_activity", "list_app_proofs"} {
		w.refused(op, object{"activityId": id('A', 9).String()}, 5, "activity not found: "+id('A', 9).String())
		w.refused(op, object{"activityId": "x"}, 3, "UUID")
	}

	if got := pick(w.get("list_activities", nil)["activities"], "id"); len(got) != 3 || w.paged.Limit != 10 || w.paged.After != nil || w.paged.Before != nil {
		t.Errorf("%v %+v", got, w.paged)
	}
	w.get("list_activities", object{
		"filterByStatus": []any{"ACTIVITY_STATUS_COMPLETED", "ACTIVITY_STATUS_FAILED"}, "filterByType": []any{"ACTIVITY_TYPE_CREATE_POLICY_V3"},
		"paginationOptions": object{"limit": "2", "before": id('A', 1).String()},
	})
	if p := w.paged; p.Limit != 2 || *p.After != id('A', 1) || len(p.Statuses) != 2 || p.Statuses[1] != org.StatusFailed || len(p.Types) != 1 || p.Types[0] != "ACTIVITY_TYPE_CREATE_POLICY_V3" {
		t.Errorf("%+v", p)
	}
	if w.paged.UntilMs != nil {
		t.Error("an end that nobody asked for")
	}
	w.get("list_activities", object{"untilMs": "1700000000000"})
	if p := w.paged; p.UntilMs == nil || *p.UntilMs != 1_700_000_000_000 {
		t.Errorf("%+v", p)
	}
	for _, bad := range []any{"-1", "x", "1.5", "99999999999999999999"} {
		w.refused("list_activities", object{"untilMs": bad}, 3, "milliseconds")
	}
	w.refused("list_activities", object{"untilMs": 7}, 3, "untilMs")
	w.get("list_activities", object{"paginationOptions": object{"after": id('A', 1).String()}})
	if p := w.paged; p.Limit != 10 || *p.Before != id('A', 1) {
		t.Errorf("%+v", p)
	}
	for _, bad := range []object{
		{"filterByStatus": []any{"COMPLETED"}}, {"filterByType": []any{"ACTIVITY_TYPE_X"}}, {"filterByType": "x"},
		{"paginationOptions": object{"limit": "0"}}, {"paginationOptions": object{"limit": 5}}, {"paginationOptions": object{"after": "x"}},
		{"paginationOptions": object{"page": "1"}},
	} {
		w.refused("list_activities", bad, 3, "")
	}
	w.refused("list_activities", object{"paginationOptions": object{"after": id('A', 1).String(), "before": id('A', 2).String()}}, 3, "before and after")
}

func TestBootProofs(t *testing.T) {
	w := newWorld(t)
	w.refused("get_latest_boot_proof", object{"appName": "cloister"}, 5, "boot proof not found")
	w.proof = []byte(`{"ephemeralPublicKeyHex":"04ab","awsAttestationDocB64":"","qosManifestB64":"","qosManifestEnvelopeB64":"","deploymentLabel":"","enclaveApp":"cloister","owner":"","createdAt":{"seconds":"1","nanos":"0"}}`)
	for op, q := range map[string]object{"get_latest_boot_proof": {"appName": "cloister"}, "get_boot_proof": {"ephemeralKey": "04AB"}} {
		if got := w.get(op, q)["bootProof"].(object); got["enclaveApp"] != "cloister" {
			t.Error(got)
		}
	}
	w.refused("get_latest_boot_proof", object{"appName": "signer"}, 5, "boot proof not found: signer")
	w.refused("get_latest_boot_proof", object{"appName": "Cloister\n"}, 5, `boot proof not found: Cloister\n`)
	w.refused("get_boot_proof", object{"ephemeralKey": "04cd" + strings.Repeat("0", 1000)}, 5, "boot proof not found: 04cd")
}

// Every piece may be missing; answers come once all are there.
func TestMissingPiecesPassThrough(t *testing.T) {
	w := newWorld(t)
	w.wallet(1, 1000, 3)
	stored := activitytest.Store(w.state)
	for _, c := range []struct {
		op string
		q  object
	}{{"list_wallet_accounts", nil}, {"get_wallet_account", object{"walletId": id('W', 1).String(), "path": "m/1"}}} {
		w.state.DropLoaded()
		n := 0
		for {
			_, err := w.ask(c.op, c.q)
			if err == nil {
				break
			}
			m, ok := err.(*org.Retry)
			if !ok || n > len(stored) {
				t.Fatal(err)
			}
			w.must(w.state.Install(m.LoadPiece, stored[m.LoadPiece]))
			n++
		}
		if n == 0 {
			t.Errorf("%s missed nothing", c.op)
		}
	}
}

func TestLogProof(t *testing.T) {
	w := newWorld(t)
	w.entries = []*org.Entry{{Activity: id('A', 1)}}
	of := func(seq any) object {
		ask := object{"activityId": id('A', 1).String()}
		if seq != nil {
			ask["seq"] = seq
		}
		return ask
	}
	want := object{"logProof": "c2sp.org/tlog-proof@v1\n",
		"logKey": object{"scheme": "SIGNATURE_SCHEME_EPHEMERAL_KEY_P256", "publicKey": "04", "proofPayload": "{}", "signature": "05"}}
	if got := w.get("get_log_proof", of(nil)); !reflect.DeepEqual(got, want) || w.logged != nil {
		t.Errorf("%v of %v", got, w.logged)
	}
	if got := w.get("get_log_proof", of("5")); !reflect.DeepEqual(got, want) || w.logged == nil || *w.logged != 5 {
		t.Errorf("%v of %v", got, w.logged)
	}
	if got := w.get("get_log_proof", object{"seq": "5"}); !reflect.DeepEqual(got, want) || w.logged == nil || *w.logged != 5 {
		t.Errorf("%v of %v", got, w.logged)
	}
	w.refused("get_log_proof", object{"seq": "6"}, 5, "entry not found: 6")
	w.refused("get_log_proof", of("6"), 5, "activity not found: "+id('A', 1).String())
	w.refused("get_log_proof", object{"activityId": id('A', 9).String()}, 5, "activity not found: "+id('A', 9).String())
	w.refused("get_log_proof", object{"activityId": "x"}, 3, "UUID")
	w.refused("get_log_proof", object{}, 3, "activityId")
	for _, bad := range []any{"-1", "+5", "05", "5.0", " 5", "x", "18446744073709551616", "9223372036854775808", 5} {
		w.refused("get_log_proof", of(bad), 3, "")
		w.refused("get_log_proof", object{"seq": bad}, 3, "")
	}
}

// A page of the history goes to who was allowed to have it, for an hour.
func TestHistory(t *testing.T) {
	w := newWorld(t)
	allowed := &org.Entry{Activity: id('H', 1), Type: "ACTIVITY_TYPE_EXPORT_HISTORY", Status: org.StatusCompleted, Initiator: w.user.ID, TimeMs: 1_000_000}
	other := &org.Entry{Activity: id('H', 2), Type: "ACTIVITY_TYPE_CREATE_WALLET", Status: org.StatusCompleted, Initiator: w.user.ID, TimeMs: 1_000_000}
	waits := &org.Entry{Activity: id('H', 3), Type: "ACTIVITY_TYPE_EXPORT_HISTORY", Status: org.StatusConsensusNeeded, Initiator: w.user.ID, TimeMs: 1_000_000}
	theirs := &org.Entry{Activity: id('H', 4), Type: "ACTIVITY_TYPE_EXPORT_HISTORY", Status: org.StatusCompleted, Initiator: id('U', 99), TimeMs: 1_000_000}
	w.entries = []*org.Entry{allowed, other, waits, theirs}
	ask := func(n byte, from string) object { return object{"activityId": id('H', n).String(), "from": from} }
	if got := w.get("get_history", ask(1, "")); got["history"] != base64.StdEncoding.EncodeToString([]byte("a page")) || got["next"] != "7" {
		t.Error(got)
	}
	if got := w.get("get_history", ask(1, "7")); got["history"] != base64.StdEncoding.EncodeToString([]byte("the rest")) || got["next"] != nil {
		t.Error(got)
	}
	w.refused("get_history", ask(1, "x"), 3, "next")
	w.refused("get_history", object{"activityId": "x"}, 3, "")
	for _, n := range []byte{2, 3, 5} {
		w.refused("get_history", ask(n, ""), 9, "no export_history that was allowed")
	}
	w.refused("get_history", ask(4, ""), 7, "who has submitted")
	w.later = query.HistoryMs
	w.get("get_history", ask(1, ""))
	w.later++
	w.refused("get_history", ask(1, ""), 9, "more than an hour ago")
}
