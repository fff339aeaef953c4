package activity_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func wallet(name string, accounts ...object) object {
	if accounts == nil {
		accounts = []object{}
	}
	return object{"walletName": name, "accounts": accounts}
}

func TestCreateWallet(t *testing.T) {
	w := newWorld(t)
	named := ethAccount(1)
	named["name"] = "Savings"
	r := w.run("CREATE_WALLET", wallet("One", ethAccount(0), named, account("ED25519", "m/44'/501'/0'/0'", "SOLANA"), account("P256", "m/0'/0", "UNCOMPRESSED"), account("SECP256K1", "m/44'/60'/0'/0/0", "COMPRESSED")))
	addresses := list(r, "addresses")
	if len(addresses) != 5 || !strings.HasPrefix(addresses[0], "0x") || len(addresses[3]) != 130 || len(addresses[4]) != 66 {
		t.Fatal(addresses)
	}
	id, _ := org.ParseID(r["walletId"].(string))
	rec, err := w.tx().Wallet(id)
	w.must(err)
	if rec.Name != "One" || rec.Words != 12 || rec.Accounts != 5 || rec.LastNo != 5 || rec.Exported || rec.CreatedMs != start {
		t.Errorf("%+v", rec)
	}
	a, err := w.tx().Account(id, 2)
	w.must(err)
	if a.Name != "Savings" || a.Address != addresses[1] || a.Path != "m/44'/60'/1'/0/0" || a.Curve != "CURVE_SECP256K1" || a.Format != "ADDRESS_FORMAT_ETHEREUM" || len(a.PublicKey) != 66 {
		t.Errorf("%+v", a)
	}
	for i, address := range addresses {
		o, ok, err := w.tx().ByAddress(chain.MatchKey(address))
		w.must(err)
		if !ok || o.ID != id || o.No != uint64(i+1) {
			t.Errorf("%s: %v %+v", address, ok, o)
		}
		c := w.last.Claims[i].Address
		if c == nil || c.WalletID != id.String() || c.Address != address || c.Path == "" || c.Organization != w.id {
			t.Errorf("%+v", c)
		}
	}
	if o, _ := w.tx().Organization(); o.Wallets != 1 {
		t.Errorf("%+v", o)
	}
	if s, err := w.vault.Open(w.user, rec.Entropy); err == nil {
		t.Errorf("the entropy opens under another id: %d bytes", s.Len())
	}
	for _, words := range []int{12, 15, 18, 21, 24} {
		in := wallet(fmt.Sprint(words))
		in["mnemonicLength"] = words
		id, _ := org.ParseID(w.run("CREATE_WALLET", in)["walletId"].(string))
		rec, _ := w.tx().Wallet(id)
		s, err := w.vault.Open(id, rec.Entropy)
		w.must(err)
		if s.Len() != words/3*4 || int(rec.Words) != words {
			t.Errorf("%d words of %d bytes", words, s.Len())
		}
	}
}

func TestCreateWalletRefuses(t *testing.T) {
	w := newWorld(t)
	w.run("CREATE_WALLET", wallet("One"))
	with := func(k string, v any) object {
		a := ethAccount(0)
		a[k] = v
		return wallet("Two", a)
	}
	words := func(n any) object {
		in := wallet("Two")
		in["mnemonicLength"] = n
		return in
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{wallet("One"), 3, "wallet label must be unique"},
		{object{"accounts": []any{}}, 3, "missing wallet params"},
		{wallet(""), 3, "missing wallet params"},
		{wallet(" x"), 3, "walletName"},
		{words(13), 3, "mnemonic length"},
		{words(-12), 3, "mnemonic length"},
		{words("many"), 3, "mnemonicLength"},
		{wallet("Two", ethAccount(0), ethAccount(0)), 3, "path must be unique"},
		{with("path", "44'/60'"), 3, "invalid path"},
		{with("path", "m/44h"), 3, "invalid path"},
		{with("path", "m/2147483648"), 3, "invalid path"},
		{with("path", "m/044"), 3, "invalid path"},
		{with("path", "m/"), 3, "invalid path"},
		{with("path", "m"+strings.Repeat("/1", 33)), 3, "invalid path"},
		{with("path", ""), 3, "missing field `path`"},
		{with("pathFormat", "PATH_FORMAT_BIP39"), 3, "invalid path format"},
		{with("curve", "CURVE_X"), 3, "invalid curve"},
		{with("curve", nil), 3, "curve required"},
		{with("curve", "CURVE_ED25519"), 3, "invalid curve"},
		{with("curve", "CURVE_P256"), 3, "invalid curve"},
		{with("addressFormat", "ADDRESS_FORMAT_X"), 3, "invalid address format"},
		{with("addressFormat", "ADDRESS_FORMAT_SOLANA"), 3, "invalid curve"},
		{with("addressFormat", "ADDRESS_FORMAT_XLM"), 3, "invalid curve"},
		{with("name", "x\n"), 3, "name"},
	} {
		w.refused("CREATE_WALLET", c.params, c.code, c.says)
	}
}

func TestFieldsAtFaultAreNamed(t *testing.T) {
	w := newWorld(t)
	bad := ethAccount(1)
	bad["path"] = "x"
	_, err := w.try("CREATE_WALLET", wallet("Two", ethAccount(0), bad))
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "accounts.1.path" {
		t.Errorf("%+v", e)
	}
	bad["path"], bad["curve"] = "m/0", "CURVE"
	_, err = w.try("CREATE_WALLET", wallet("Two", ethAccount(0), bad))
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "accounts.1.curve" {
		t.Errorf("%+v", e)
	}
}

func TestWalletLimit(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		w.run("CREATE_WALLET", wallet(fmt.Sprint(i)))
	}
	w.refused("CREATE_WALLET", wallet("one more"), 8, "at most 100 wallets")
}

func TestCreateWalletAccounts(t *testing.T) {
	w := newWorld(t)
	made := w.run("CREATE_WALLET", wallet("One", ethAccount(0)))
	id := made["walletId"]
	in := object{"walletId": id, "accounts": []any{ethAccount(1), ethAccount(2)}, "persist": false}
	before := w.state.UnsavedBytes()
	seen := list(w.run("CREATE_WALLET_ACCOUNTS", in), "addresses")
	if w.state.UnsavedBytes() != before {
		t.Error("persist:false wrote something")
	}
	in["persist"] = true
	kept := list(w.run("CREATE_WALLET_ACCOUNTS", in), "addresses")
	if len(kept) != 2 || kept[0] != seen[0] || kept[1] != seen[1] || kept[0] == kept[1] {
		t.Errorf("%v, then %v", seen, kept)
	}
	w.refused("CREATE_WALLET_ACCOUNTS", in, 3, "path must be unique")
	in["persist"] = false
	w.run("CREATE_WALLET_ACCOUNTS", in) // one may look at what there is
	w.run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{account("SECP256K1", "m/44'/60'/1'/0/0", "UNCOMPRESSED")}})
	rec, _ := w.tx().Wallet(mustID(id))
	if rec.Accounts != 4 || rec.LastNo != 4 {
		t.Errorf("%+v", rec)
	}
	if r := w.run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{}}); len(list(r, "addresses")) != 0 {
		t.Error(r)
	}
	other := w.newID().String()
	w.refused("CREATE_WALLET_ACCOUNTS", object{"walletId": other, "accounts": []any{ethAccount(3)}}, 5, "wallet not found: "+other)
	// The path is taken while the batch runs: nothing of it stays.
	w.refused("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{ethAccount(9), ethAccount(1)}}, 3, "path must be unique")
	if no, _ := w.tx().AccountAt(mustID(id), "m/44'/60'/9'/0/0", "CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM"); no != 0 {
		t.Error("half a batch was kept")
	}
}

func mustID(v any) org.ID {
	id, err := org.ParseID(v.(string))
	if err != nil {
		panic(err)
	}
	return id
}

func TestUpdateWallet(t *testing.T) {
	w := newWorld(t)
	id := w.run("CREATE_WALLET", wallet("One"))["walletId"]
	w.run("CREATE_WALLET", wallet("Two"))
	w.now += 1000
	for _, in := range []object{{"walletId": id}, {"walletId": id, "walletName": nil}, {"walletId": id, "walletName": ""}} {
		before := w.state.UnsavedBytes()
		w.run("UPDATE_WALLET", in)
		if w.state.UnsavedBytes() != before {
			t.Errorf("%v changed the state", in)
		}
	}
	w.run("UPDATE_WALLET", object{"walletId": id, "walletName": "Three"})
	if rec, _ := w.tx().Wallet(mustID(id)); rec.Name != "Three" || rec.UpdatedMs != start+1000 || rec.CreatedMs != start {
		t.Errorf("%+v", rec)
	}
	w.refused("UPDATE_WALLET", object{"walletId": id, "walletName": "Two"}, 3, "wallet label must be unique")
	w.run("CREATE_WALLET", wallet("One"))
	other := w.newID().String()
	w.refused("UPDATE_WALLET", object{"walletId": other, "walletName": "X"}, 5, "wallet not found: "+other)
	w.refused("UPDATE_WALLET", object{"walletName": "X"}, 3, "walletId")
}

func TestDeleteWallets(t *testing.T) {
	w := newWorld(t)
	one := w.run("CREATE_WALLET", wallet("One", ethAccount(0), ethAccount(1)))
	two := w.run("CREATE_WALLET", wallet("Two", ethAccount(0)))
	kept := w.run("CREATE_WALLET", wallet("Kept", ethAccount(0)))
	sign(w, list(one, "addresses")[0], "00")
	del := func(without any, ids ...any) object { return object{"walletIds": ids, "deleteWithoutExport": without} }
	for _, without := range []any{nil, false} {
		w.refused("DELETE_WALLETS", del(without, one["walletId"]), 3, "wallet account has not been exported")
	}
	_, err := w.try("DELETE_WALLETS", del(nil, one["walletId"]))
	if e := fault.Of(err); e.Name != "WALLET_ACCOUNT_NOT_EXPORTED" {
		t.Errorf("%+v", e)
	}
	other := w.newID().String()
	w.refused("DELETE_WALLETS", del(true, one["walletId"], other), 5, "wallet not found: "+other)
	w.refused("DELETE_WALLETS", del(true, one["walletId"], one["walletId"]), 3, "named twice")
	w.refused("DELETE_WALLETS", del(true), 3, "walletIds")
	if got := list(w.run("DELETE_WALLETS", del(true, one["walletId"], two["walletId"])), "walletIds"); len(got) != 2 {
		t.Error(got)
	}
	for _, address := range list(one, "addresses") {
		w.refused("SIGN_RAW_PAYLOAD_V2", signing(address, "00"), 5, "wallet account not found: "+address)
	}
	sign(w, list(kept, "addresses")[0], "00")
	if o, _ := w.tx().Organization(); o.Wallets != 1 {
		t.Errorf("%+v", o)
	}
	n := 0
	w.must(w.tx().EachAccount(mustID(one["walletId"]), 0, func(*org.Account) bool { n++; return true }))
	if n != 0 {
		t.Errorf("%d accounts left", n)
	}
	w.run("CREATE_WALLET", wallet("One")) // the name is free again
	// An exported wallet goes without asking.
	id := mustID(kept["walletId"])
	tx := w.tx()
	rec, _ := tx.Wallet(id)
	exported := *rec
	exported.Exported = true
	w.must(tx.PutWallet(&exported))
	tx.Keep()
	w.run("DELETE_WALLETS", del(nil, kept["walletId"]))
}

func privateKey(name, curve string, formats ...string) object {
	fs := []any{}
	for _, f := range formats {
		fs = append(fs, "ADDRESS_FORMAT_"+f)
	}
	return object{"privateKeyName": name, "curve": "CURVE_" + curve, "addressFormats": fs, "privateKeyTags": []any{}}
}

func TestPrivateKeys(t *testing.T) {
	w := newWorld(t)
	key := privateKey
	in := func(ks ...object) object { return object{"privateKeys": ks} }
	r := w.run("CREATE_PRIVATE_KEYS_V2", in(key("a", "SECP256K1", "ETHEREUM", "COMPRESSED"), key("b", "ED25519", "SOLANA"), key("c", "P256")))
	made := r["privateKeys"].([]any)
	if len(made) != 3 {
		t.Fatal(r)
	}
	a := made[0].(object)
	id := mustID(a["privateKeyId"])
	rec, err := w.tx().PrivateKey(id)
	w.must(err)
	if rec.Name != "a" || len(rec.PublicKey) != 130 || len(rec.Addresses) != 2 || rec.Addresses[0].Format != "ADDRESS_FORMAT_ETHEREUM" {
		t.Errorf("%+v", rec)
	}
	if b, _ := w.tx().PrivateKey(mustID(made[1].(object)["privateKeyId"])); len(b.PublicKey) != 64 {
		t.Errorf("%+v", b)
	}
	if len(w.last.Claims) != 3 || w.last.Claims[0].Address.WalletID != "" || w.last.Claims[0].Address.Path != "" {
		t.Errorf("%+v", w.last.Claims)
	}
	for _, a := range a["addresses"].([]any) {
		o, ok, err := w.tx().ByAddress(chain.MatchKey(a.(object)["address"].(string)))
		w.must(err)
		if !ok || o.ID != id || o.No != 0 {
			t.Errorf("%v: %v %+v", a, ok, o)
		}
	}
	if ids := list(w.run("CREATE_PRIVATE_KEYS", in(key("v1", "SECP256K1"))), "privateKeyIds"); len(ids) != 1 {
		t.Error(ids)
	}
	if o, _ := w.tx().Organization(); o.PrivateKeys != 4 {
		t.Errorf("%+v", o)
	}
	tagged := key("t", "P256")
	tagged["privateKeyTags"] = []any{w.root}
	w.refused("CREATE_PRIVATE_KEYS_V2", in(tagged), 5, "private key tag not found: "+w.root)
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("a", "P256")), 3, "private key label must be unique")
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("x", "P256"), key("x", "P256")), 3, "private key label must be unique")
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("x", "P256", "ETHEREUM")), 3, "invalid curve")
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("x", "SECP256K1", "ETHEREUM", "ETHEREUM")), 3, "named twice")
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("x", "SECP256K1", "NONE")), 3, "invalid address format")
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("x", "SECP256K1", "TON_V4R2")), 3, "invalid curve")
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("x", "")), 3, "invalid curve")
	var many []object
	for i := range 997 {
		many = append(many, key(fmt.Sprint("many ", i), "ED25519"))
	}
	w.refused("CREATE_PRIVATE_KEYS_V2", in(many...), 8, "at most 1000 private keys")
	w.run("CREATE_PRIVATE_KEYS_V2", in(many[:996]...))
	w.refused("CREATE_PRIVATE_KEYS_V2", in(key("last", "ED25519")), 8, "at most 1000 private keys")
}

func TestNothingIsClaimedUnasked(t *testing.T) {
	w := newWorld(t)
	v, err := kinds.Live.Lookup("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET")
	w.must(err)
	in, err := v.Decode(text(wallet("One", ethAccount(0))))
	w.must(err)
	tx := &activity.Tx{Tx: w.tx(), Vault: w.vault, Rand: w.rand, Keys: w.keys, User: w.user, Activity: w.newID()}
	tx.Grant = w.granted(v, in, tx.Activity)
	if _, err := v.Run(tx, in); err != nil || len(tx.Claims) != 0 {
		t.Errorf("%v %+v", err, tx.Claims)
	}
}

func TestUpdateWalletAccountName(t *testing.T) {
	w := newWorld(t)
	made := w.run("CREATE_WALLET", wallet("One", ethAccount(0), ethAccount(1)))
	a, _ := w.tx().Account(mustID(made["walletId"]), 2)
	w.now += 1000
	if r := w.run("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": a.ID().String(), "name": "Savings"}); r["walletAccountId"] != a.ID().String() {
		t.Error(r)
	}
	if b, _ := w.tx().Account(a.Wallet, 2); b.Name != "Savings" || b.UpdatedMs != start+1000 || b.CreatedMs != start || b.Address != a.Address {
		t.Errorf("%+v", b)
	}
	sign(w, a.Address, "00")
	missing := *a
	missing.No = 3
	other := w.newID().String()
	w.refused("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": missing.ID().String(), "name": "x"}, 5, "wallet account not found: "+missing.ID().String())
	w.refused("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": other, "name": "x"}, 5, "wallet account not found: "+other)
	w.refused("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": a.ID().String(), "name": ""}, 3, "name")
	w.refused("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": a.ID().String(), "name": " x"}, 3, "name")
	w.refused("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": "x", "name": "x"}, 3, "walletAccountId")
}

func TestDeleteWalletAccounts(t *testing.T) {
	w := newWorld(t)
	one := w.run("CREATE_WALLET", wallet("One", ethAccount(0), ethAccount(1), ethAccount(2)))
	two := w.run("CREATE_WALLET", wallet("Two", ethAccount(0)))
	id := func(made object, no uint64) string {
		return (&org.Account{Wallet: mustID(made["walletId"]), No: no}).ID().String()
	}
	sign(w, list(one, "addresses")[0], "00")
	del := func(without any, ids ...any) object {
		return object{"walletAccountIds": ids, "deleteWithoutExport": without}
	}
	for _, without := range []any{nil, false} {
		w.refused("DELETE_WALLET_ACCOUNTS", del(without, id(one, 1)), 3, "wallet account has not been exported")
	}
	_, err := w.try("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 1)))
	if e := fault.Of(err); e.Name != "WALLET_ACCOUNT_NOT_EXPORTED" {
		t.Errorf("%+v", e)
	}
	w.refused("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), id(one, 4)), 5, "wallet account not found: "+id(one, 4))
	w.refused("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), w.root), 5, "wallet account not found: "+w.root)
	w.refused("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), id(one, 1)), 3, "named twice")
	w.refused("DELETE_WALLET_ACCOUNTS", del(true), 3, "walletAccountIds")
	w.now += 1000
	if got := list(w.run("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), id(two, 1), id(one, 3))), "walletAccountIds"); len(got) != 3 {
		t.Error(got)
	}
	rec, _ := w.tx().Wallet(mustID(one["walletId"]))
	if rec.Accounts != 1 || rec.LastNo != 3 || rec.UpdatedMs != start+1000 {
		t.Errorf("%+v", rec)
	}
	for i, gone := range []bool{true, false, true} {
		address := list(one, "addresses")[i]
		if !gone {
			sign(w, address, "00")
			continue
		}
		w.refused("SIGN_RAW_PAYLOAD_V2", signing(address, "00"), 5, "wallet account not found: "+address)
	}
	// What was deleted can be derived again, under another number.
	again := w.run("CREATE_WALLET_ACCOUNTS", object{"walletId": one["walletId"], "accounts": []any{ethAccount(0)}})
	if list(again, "addresses")[0] != list(one, "addresses")[0] {
		t.Error("another address at the same path")
	}
	sign(w, list(one, "addresses")[0], "00")
	// An account is exported if it was, or its wallet.
	tx := w.tx()
	a, _ := tx.Account(mustID(one["walletId"]), 2)
	exported := *a
	exported.Exported = true
	w.must(tx.PutAccount(&exported, chain.MatchKey(a.Address)))
	w.keep(tx)
	w.run("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 2)))
	w.refused("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 4)), 3, "has not been exported")
	w.export()
	w.run("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 4)))
}
