package wallet_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func TestCreateWallet(t *testing.T) {
	w := activitytest.New(t)
	named := activitytest.EthAccount(1)
	named["name"] = "Savings"
	r := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0), named, activitytest.Account("ED25519", "m/44'/501'/0'/0'", "SOLANA"), activitytest.Account("P256", "m/0'/0", "UNCOMPRESSED"), activitytest.Account("SECP256K1", "m/44'/60'/0'/0/0", "COMPRESSED")))
	addresses := activitytest.List(r, "addresses")
	if len(addresses) != 5 || !strings.HasPrefix(addresses[0], "0x") || len(addresses[3]) != 130 || len(addresses[4]) != 66 {
		t.Fatal(addresses)
	}
	id, _ := org.ParseID(r["walletId"].(string))
	rec, err := w.Tx().Wallet(id)
	w.Must(err)
	if rec.Name != "One" || rec.Words != 12 || rec.Accounts != 5 || rec.LastNo != 5 || rec.Exported || rec.CreatedMs != activitytest.Start {
		t.Errorf("%+v", rec)
	}
	a, err := w.Tx().Account(id, 2)
	w.Must(err)
	if a.Name != "Savings" || a.Address != addresses[1] || a.Path != "m/44'/60'/1'/0/0" || a.Curve != "CURVE_SECP256K1" || a.Format != "ADDRESS_FORMAT_ETHEREUM" || len(a.PublicKey) != 66 {
		t.Errorf("%+v", a)
	}
	for i, address := range addresses {
		o, ok, err := w.Tx().ByAddress(chain.MatchKey(address))
		w.Must(err)
		if !ok || o.ID != id || o.No != uint64(i+1) {
			t.Errorf("%s: %v %+v", address, ok, o)
		}
		c := w.Last.Claims[i].Address
		if c == nil || c.WalletID != id.String() || c.Address != address || c.Path == "" || c.Organization != w.ID {
			t.Errorf("%+v", c)
		}
	}
	if o, _ := w.Tx().Organization(); o.Wallets != 1 {
		t.Errorf("%+v", o)
	}
	if s, err := w.Vault.Open(w.User, rec.Entropy); err == nil {
		t.Errorf("the entropy opens under another id: %d bytes", s.Len())
	}
	for _, words := range []int{12, 15, 18, 21, 24} {
		in := activitytest.Wallet(fmt.Sprint(words))
		in["mnemonicLength"] = words
		id, _ := org.ParseID(w.Run("CREATE_WALLET", in)["walletId"].(string))
		rec, _ := w.Tx().Wallet(id)
		s, err := w.Vault.Open(id, rec.Entropy)
		w.Must(err)
		if s.Len() != words/3*4 || int(rec.Words) != words {
			t.Errorf("%d words of %d bytes", words, s.Len())
		}
	}
}

func TestCreateWalletRefuses(t *testing.T) {
	w := activitytest.New(t)
	w.Run("CREATE_WALLET", activitytest.Wallet("One"))
	with := func(k string, v any) object {
		a := activitytest.EthAccount(0)
		a[k] = v
		return activitytest.Wallet("Two", a)
	}
	words := func(n any) object {
		in := activitytest.Wallet("Two")
		in["mnemonicLength"] = n
		return in
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{activitytest.Wallet("One"), 3, "wallet label must be unique"},
		{object{"accounts": []any{}}, 3, "missing wallet params"},
		{activitytest.Wallet(""), 3, "missing wallet params"},
		{activitytest.Wallet(" x"), 3, "walletName"},
		{words(13), 3, "mnemonic length"},
		{words(-12), 3, "mnemonic length"},
		{words("many"), 3, "mnemonicLength"},
		{activitytest.Wallet("Two", activitytest.EthAccount(0), activitytest.EthAccount(0)), 3, "path must be unique"},
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
		w.Refuse("CREATE_WALLET", c.params, c.code, c.says)
	}
}

func TestFieldsAtFaultAreNamed(t *testing.T) {
	w := activitytest.New(t)
	bad := activitytest.EthAccount(1)
	bad["path"] = "x"
	_, err := w.Try("CREATE_WALLET", activitytest.Wallet("Two", activitytest.EthAccount(0), bad))
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "accounts.1.path" {
		t.Errorf("%+v", e)
	}
	bad["path"], bad["curve"] = "m/0", "CURVE"
	_, err = w.Try("CREATE_WALLET", activitytest.Wallet("Two", activitytest.EthAccount(0), bad))
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "accounts.1.curve" {
		t.Errorf("%+v", e)
	}
}

func TestWalletLimit(t *testing.T) {
	w := activitytest.New(t)
	for i := range 100 {
		w.Run("CREATE_WALLET", activitytest.Wallet(fmt.Sprint(i)))
	}
	w.Refuse("CREATE_WALLET", activitytest.Wallet("one more"), 8, "at most 100 wallets")
}

func TestCreateWalletAccounts(t *testing.T) {
	w := activitytest.New(t)
	made := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0)))
	id := made["walletId"]
	in := object{"walletId": id, "accounts": []any{activitytest.EthAccount(1), activitytest.EthAccount(2)}, "persist": false}
	before := w.State.Bytes()
	seen := activitytest.List(w.Run("CREATE_WALLET_ACCOUNTS", in), "addresses")
	if w.State.Bytes() != before {
		t.Error("persist:false wrote something")
	}
	in["persist"] = true
	kept := activitytest.List(w.Run("CREATE_WALLET_ACCOUNTS", in), "addresses")
	if len(kept) != 2 || kept[0] != seen[0] || kept[1] != seen[1] || kept[0] == kept[1] {
		t.Errorf("%v, then %v", seen, kept)
	}
	w.Refuse("CREATE_WALLET_ACCOUNTS", in, 3, "path must be unique")
	in["persist"] = false
	w.Run("CREATE_WALLET_ACCOUNTS", in) // one may look at what there is
	w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{activitytest.Account("SECP256K1", "m/44'/60'/1'/0/0", "UNCOMPRESSED")}})
	rec, _ := w.Tx().Wallet(activitytest.MustID(id))
	if rec.Accounts != 4 || rec.LastNo != 4 {
		t.Errorf("%+v", rec)
	}
	if r := w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{}}); len(activitytest.List(r, "addresses")) != 0 {
		t.Error(r)
	}
	other := w.NewID().String()
	w.Refuse("CREATE_WALLET_ACCOUNTS", object{"walletId": other, "accounts": []any{activitytest.EthAccount(3)}}, 5, "wallet not found: "+other)
	// The path is taken while the batch runs: nothing of it stays.
	w.Refuse("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{activitytest.EthAccount(9), activitytest.EthAccount(1)}}, 3, "path must be unique")
	if no, _ := w.Tx().AccountAt(activitytest.MustID(id), "m/44'/60'/9'/0/0", "CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM"); no != 0 {
		t.Error("half a batch was kept")
	}
}

// A path of ed25519 is one path with apostrophes or without: the wallet has it once.
func TestPathsOfEd25519(t *testing.T) {
	w := activitytest.New(t)
	at := func(path, format string) object { return activitytest.Account("ED25519", path, format) }
	w.Refuse("CREATE_WALLET", activitytest.Wallet("Both", at("m/44'/501'/7'/3", "SOLANA"), at("m/44'/501'/7'/3'", "SOLANA")), 3, "path must be unique")
	made := w.Run("CREATE_WALLET", activitytest.Wallet("One", at("m/44'/501'/7'/3", "SOLANA"), at("m/44'/501'/7'/3'", "SUI")))
	more := func(accounts ...object) object {
		return object{"walletId": made["walletId"], "accounts": accounts, "persist": true}
	}
	for _, path := range []string{"m/44'/501'/7'/3", "m/44'/501'/7'/3'", "m/44/501/7/3"} {
		w.Refuse("CREATE_WALLET_ACCOUNTS", more(at("m/0'", "SOLANA"), at(path, "SOLANA")), 3, "path must be unique")
		look := more(at(path, "SOLANA"))
		look["persist"] = false
		if seen := activitytest.List(w.Run("CREATE_WALLET_ACCOUNTS", look), "addresses"); seen[0] != activitytest.List(made, "addresses")[0] {
			t.Errorf("%s: %v", path, seen)
		}
	}
	w.Run("CREATE_WALLET_ACCOUNTS", more(at("m/44'/501'/7'/4", "SOLANA"), at("m/44'/501'/7'/3'", "APTOS")))
	// The path stays as it was written; on other curves its two forms are two keys.
	a, _ := w.Tx().Account(activitytest.MustID(made["walletId"].(string)), 1)
	if a.Path != "m/44'/501'/7'/3" {
		t.Error(a.Path)
	}
	w.Run("CREATE_WALLET_ACCOUNTS", more(activitytest.Account("P256", "m/0", "COMPRESSED"), activitytest.Account("P256", "m/0'", "COMPRESSED")))
}

func TestUpdateWallet(t *testing.T) {
	w := activitytest.New(t)
	id := w.Run("CREATE_WALLET", activitytest.Wallet("One"))["walletId"]
	w.Run("CREATE_WALLET", activitytest.Wallet("Two"))
	w.Now += 1000
	for _, in := range []object{{"walletId": id}, {"walletId": id, "walletName": nil}, {"walletId": id, "walletName": ""}} {
		before := w.State.Bytes()
		w.Run("UPDATE_WALLET", in)
		if w.State.Bytes() != before {
			t.Errorf("%v changed the state", in)
		}
	}
	w.Run("UPDATE_WALLET", object{"walletId": id, "walletName": "Three"})
	if rec, _ := w.Tx().Wallet(activitytest.MustID(id)); rec.Name != "Three" || rec.UpdatedMs != activitytest.Start+1000 || rec.CreatedMs != activitytest.Start {
		t.Errorf("%+v", rec)
	}
	w.Refuse("UPDATE_WALLET", object{"walletId": id, "walletName": "Two"}, 3, "wallet label must be unique")
	w.Run("CREATE_WALLET", activitytest.Wallet("One"))
	other := w.NewID().String()
	w.Refuse("UPDATE_WALLET", object{"walletId": other, "walletName": "X"}, 5, "wallet not found: "+other)
	w.Refuse("UPDATE_WALLET", object{"walletName": "X"}, 3, "walletId")
}

func TestDeleteWallets(t *testing.T) {
	w := activitytest.New(t)
	one := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0), activitytest.EthAccount(1)))
	two := w.Run("CREATE_WALLET", activitytest.Wallet("Two", activitytest.EthAccount(0)))
	kept := w.Run("CREATE_WALLET", activitytest.Wallet("Kept", activitytest.EthAccount(0)))
	w.Sign(activitytest.List(one, "addresses")[0], "00")
	del := func(without any, ids ...any) object { return object{"walletIds": ids, "deleteWithoutExport": without} }
	for _, without := range []any{nil, false} {
		w.Refuse("DELETE_WALLETS", del(without, one["walletId"]), 3, "wallet account has not been exported")
	}
	_, err := w.Try("DELETE_WALLETS", del(nil, one["walletId"]))
	if e := fault.Of(err); e.Name != "WALLET_ACCOUNT_NOT_EXPORTED" {
		t.Errorf("%+v", e)
	}
	other := w.NewID().String()
	w.Refuse("DELETE_WALLETS", del(true, one["walletId"], other), 5, "wallet not found: "+other)
	w.Refuse("DELETE_WALLETS", del(true, one["walletId"], one["walletId"]), 3, "named twice")
	w.Refuse("DELETE_WALLETS", del(true), 3, "walletIds")
	if got := activitytest.List(w.Run("DELETE_WALLETS", del(true, one["walletId"], two["walletId"])), "walletIds"); len(got) != 2 {
		t.Error(got)
	}
	for _, address := range activitytest.List(one, "addresses") {
		w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(address, "00"), 5, "wallet account not found: "+address)
	}
	w.Sign(activitytest.List(kept, "addresses")[0], "00")
	if o, _ := w.Tx().Organization(); o.Wallets != 1 {
		t.Errorf("%+v", o)
	}
	n := 0
	w.Must(w.Tx().EachAccount(activitytest.MustID(one["walletId"]), 0, func(*org.Account) bool { n++; return true }))
	if n != 0 {
		t.Errorf("%d accounts left", n)
	}
	w.Run("CREATE_WALLET", activitytest.Wallet("One")) // the name is free again
	// An exported wallet goes without asking.
	id := activitytest.MustID(kept["walletId"])
	tx := w.Tx()
	rec, _ := tx.Wallet(id)
	exported := *rec
	exported.Exported = true
	w.Must(tx.PutWallet(&exported))
	tx.Apply()
	w.Run("DELETE_WALLETS", del(nil, kept["walletId"]))
}

func TestPrivateKeys(t *testing.T) {
	w := activitytest.New(t)
	key := activitytest.PrivateKey
	in := func(ks ...object) object { return object{"privateKeys": ks} }
	r := w.Run("CREATE_PRIVATE_KEYS_V2", in(key("a", "SECP256K1", "ETHEREUM", "COMPRESSED"), key("b", "ED25519", "SOLANA"), key("c", "P256")))
	made := r["privateKeys"].([]any)
	if len(made) != 3 {
		t.Fatal(r)
	}
	a := made[0].(object)
	id := activitytest.MustID(a["privateKeyId"])
	rec, err := w.Tx().PrivateKey(id)
	w.Must(err)
	if rec.Name != "a" || len(rec.PublicKey) != 130 || len(rec.Addresses) != 2 || rec.Addresses[0].Format != "ADDRESS_FORMAT_ETHEREUM" {
		t.Errorf("%+v", rec)
	}
	if b, _ := w.Tx().PrivateKey(activitytest.MustID(made[1].(object)["privateKeyId"])); len(b.PublicKey) != 64 {
		t.Errorf("%+v", b)
	}
	if len(w.Last.Claims) != 3 || w.Last.Claims[0].Address.WalletID != "" || w.Last.Claims[0].Address.Path != "" {
		t.Errorf("%+v", w.Last.Claims)
	}
	for _, a := range a["addresses"].([]any) {
		o, ok, err := w.Tx().ByAddress(chain.MatchKey(a.(object)["address"].(string)))
		w.Must(err)
		if !ok || o.ID != id || o.No != 0 {
			t.Errorf("%v: %v %+v", a, ok, o)
		}
	}
	if ids := activitytest.List(w.Run("CREATE_PRIVATE_KEYS", in(key("v1", "SECP256K1"))), "privateKeyIds"); len(ids) != 1 {
		t.Error(ids)
	}
	if o, _ := w.Tx().Organization(); o.PrivateKeys != 4 {
		t.Errorf("%+v", o)
	}
	tagged := key("t", "P256")
	tagged["privateKeyTags"] = []any{w.Root}
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(tagged), 5, "private key tag not found: "+w.Root)
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("a", "P256")), 3, "private key label must be unique")
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("x", "P256"), key("x", "P256")), 3, "private key label must be unique")
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("x", "P256", "ETHEREUM")), 3, "invalid curve")
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("x", "SECP256K1", "ETHEREUM", "ETHEREUM")), 3, "named twice")
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("x", "SECP256K1", "NONE")), 3, "invalid address format")
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("x", "SECP256K1", "TON_V4R2")), 3, "invalid curve")
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("x", "")), 3, "invalid curve")
	var many []object
	for i := range 997 {
		many = append(many, key(fmt.Sprint("many ", i), "ED25519"))
	}
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(many...), 8, "at most 1000 private keys")
	w.Run("CREATE_PRIVATE_KEYS_V2", in(many[:996]...))
	w.Refuse("CREATE_PRIVATE_KEYS_V2", in(key("last", "ED25519")), 8, "at most 1000 private keys")
}

func TestNothingIsClaimedUnasked(t *testing.T) {
	w := activitytest.New(t)
	v, err := kinds.Live.Lookup("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET")
	w.Must(err)
	in, err := v.Decode(activitytest.JSON(activitytest.Wallet("One", activitytest.EthAccount(0))))
	w.Must(err)
	tx := &activity.Tx{Tx: w.Tx(), Vault: activity.VaultOf(w.Vault), Rand: w.Rand, Keys: w.Keys, User: w.User, Activity: w.NewID()}
	tx.Grant = w.GrantFor(v, in, tx.Activity)
	if _, err := v.Run(tx, in); err != nil || len(tx.Claims) != 0 {
		t.Errorf("%v %+v", err, tx.Claims)
	}
}

func TestUpdateWalletAccountName(t *testing.T) {
	w := activitytest.New(t)
	made := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0), activitytest.EthAccount(1)))
	a, _ := w.Tx().Account(activitytest.MustID(made["walletId"]), 2)
	w.Now += 1000
	if r := w.Run("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": a.ID().String(), "name": "Savings"}); r["walletAccountId"] != a.ID().String() {
		t.Error(r)
	}
	if b, _ := w.Tx().Account(a.Wallet, 2); b.Name != "Savings" || b.UpdatedMs != activitytest.Start+1000 || b.CreatedMs != activitytest.Start || b.Address != a.Address {
		t.Errorf("%+v", b)
	}
	w.Sign(a.Address, "00")
	missing := *a
	missing.No = 3
	other := w.NewID().String()
	w.Refuse("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": missing.ID().String(), "name": "x"}, 5, "wallet account not found: "+missing.ID().String())
	w.Refuse("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": other, "name": "x"}, 5, "wallet account not found: "+other)
	w.Refuse("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": a.ID().String(), "name": ""}, 3, "name")
	w.Refuse("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": a.ID().String(), "name": " x"}, 3, "name")
	w.Refuse("UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": "x", "name": "x"}, 3, "walletAccountId")
}

func TestDeleteWalletAccounts(t *testing.T) {
	w := activitytest.New(t)
	one := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0), activitytest.EthAccount(1), activitytest.EthAccount(2)))
	two := w.Run("CREATE_WALLET", activitytest.Wallet("Two", activitytest.EthAccount(0)))
	id := func(made object, no uint64) string {
		return (&org.Account{Wallet: activitytest.MustID(made["walletId"]), No: no}).ID().String()
	}
	w.Sign(activitytest.List(one, "addresses")[0], "00")
	del := func(without any, ids ...any) object {
		return object{"walletAccountIds": ids, "deleteWithoutExport": without}
	}
	for _, without := range []any{nil, false} {
		w.Refuse("DELETE_WALLET_ACCOUNTS", del(without, id(one, 1)), 3, "wallet account has not been exported")
	}
	_, err := w.Try("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 1)))
	if e := fault.Of(err); e.Name != "WALLET_ACCOUNT_NOT_EXPORTED" {
		t.Errorf("%+v", e)
	}
	w.Refuse("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), id(one, 4)), 5, "wallet account not found: "+id(one, 4))
	w.Refuse("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), w.Root), 5, "wallet account not found: "+w.Root)
	w.Refuse("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), id(one, 1)), 3, "named twice")
	w.Refuse("DELETE_WALLET_ACCOUNTS", del(true), 3, "walletAccountIds")
	w.Now += 1000
	if got := activitytest.List(w.Run("DELETE_WALLET_ACCOUNTS", del(true, id(one, 1), id(two, 1), id(one, 3))), "walletAccountIds"); len(got) != 3 {
		t.Error(got)
	}
	rec, _ := w.Tx().Wallet(activitytest.MustID(one["walletId"]))
	if rec.Accounts != 1 || rec.LastNo != 3 || rec.UpdatedMs != activitytest.Start+1000 {
		t.Errorf("%+v", rec)
	}
	for i, gone := range []bool{true, false, true} {
		address := activitytest.List(one, "addresses")[i]
		if !gone {
			w.Sign(address, "00")
			continue
		}
		w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(address, "00"), 5, "wallet account not found: "+address)
	}
	// What was deleted can be derived again, under another number.
	again := w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": one["walletId"], "accounts": []any{activitytest.EthAccount(0)}})
	if activitytest.List(again, "addresses")[0] != activitytest.List(one, "addresses")[0] {
		t.Error("another address at the same path")
	}
	w.Sign(activitytest.List(one, "addresses")[0], "00")
	// An account is exported if it was, or its wallet.
	tx := w.Tx()
	a, _ := tx.Account(activitytest.MustID(one["walletId"]), 2)
	exported := *a
	exported.Exported = true
	w.Must(tx.PutAccount(&exported, chain.MatchKey(a.Address)))
	w.Keep(tx)
	w.Run("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 2)))
	w.Refuse("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 4)), 3, "has not been exported")
	w.Export()
	w.Run("DELETE_WALLET_ACCOUNTS", del(nil, id(one, 4)))
}
