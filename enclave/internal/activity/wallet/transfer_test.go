package wallet_test

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// What a client does, with the standard library alone.

// inner is the document that a server's message signs.
func inner(w *world, text any) map[string]string {
	w.TB.Helper()
	var m, in map[string]string
	w.Must(json.Unmarshal([]byte(text.(string)), &m))
	if m["enclaveQuorumPublic"] != w.Bundles.PublicKey() || m["version"] != "v1.0.0" {
		w.TB.Errorf("%s", text)
	}
	b, err := hex.DecodeString(m["data"])
	w.Must(err)
	w.Must(json.Unmarshal(b, &in))
	return in
}

// A receiver takes exports.
type receiver struct{ key *ecdh.PrivateKey }

func newReceiver(w *world) receiver {
	var b [32]byte
	w.Rand.Read(b[:])
	k, err := ecdh.P256().NewPrivateKey(b[:])
	w.Must(err)
	return receiver{k}
}

func (r receiver) public() string { return hex.EncodeToString(r.key.PublicKey().Bytes()) }

func exportedTo(w *world, r receiver, text any) string {
	w.TB.Helper()
	in := inner(w, text)
	if in["organizationId"] != w.ID.String() || len(in) != 3 {
		w.TB.Errorf("%v", in)
	}
	enc, err := hex.DecodeString(in["encappedPublic"])
	w.Must(err)
	ciphertext, err := hex.DecodeString(in["ciphertext"])
	w.Must(err)
	k, err := hpke.NewDHKEMPrivateKey(r.key)
	w.Must(err)
	from, err := hpke.NewRecipient(enc, k, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	w.Must(err)
	plain, err := from.Open(append(append([]byte{}, enc...), r.key.PublicKey().Bytes()...), ciphertext)
	w.Must(err)
	return string(plain)
}

// targetFor asks for an import target and answers its public key.
func targetFor(w *world, what string) string {
	w.TB.Helper()
	in := inner(w, w.Run("INIT_IMPORT_"+what, object{"userId": w.User.String()})["importBundle"])
	if in["organizationId"] != w.ID.String() || in["userId"] != w.User.String() || len(in) != 3 {
		w.TB.Errorf("%v", in)
	}
	return in["targetPublic"]
}

func walletIn(w *world, name, sealed string, accounts ...object) object {
	in := activitytest.Wallet(name, accounts...)
	in["userId"], in["encryptedBundle"] = w.User.String(), sealed
	return in
}

func keyIn(w *world, name, curve, sealed string, formats ...string) object {
	in := activitytest.Without(activitytest.PrivateKey(name, curve, formats...), "privateKeyTags")
	in["userId"], in["encryptedBundle"] = w.User.String(), sealed
	return in
}

// importWallet imports a mnemonic through a target of its own.
func importWallet(w *world, name, text string, accounts ...object) object {
	w.TB.Helper()
	return w.Run("IMPORT_WALLET", walletIn(w, name, w.SealTo(targetFor(w, "WALLET"), text), accounts...))
}

func importKey(w *world, name, curve, hexKey string, formats ...string) object {
	w.TB.Helper()
	b, err := hex.DecodeString(hexKey)
	w.Must(err)
	return w.Run("IMPORT_PRIVATE_KEY", keyIn(w, name, curve, w.SealTo(targetFor(w, "PRIVATE_KEY"), string(b)), formats...))
}

func targetsOf(w *world) []*org.Target {
	w.TB.Helper()
	gs, err := w.Tx().Targets(w.User)
	w.Must(err)
	return gs
}

// spent runs an import that must be refused, and must spend one target and change
// nothing else.
func spent(w *world, typ string, params object, says string) {
	w.TB.Helper()
	before, n := targetsOf(w), w.Secrets()
	_, err := w.Try(typ, params)
	e := fault.Of(err)
	if e == nil || e.Code != fault.InvalidArgument || !strings.Contains(e.Message, says) {
		w.TB.Errorf("%s: %v, want %q", typ, err, says)
	}
	if after := targetsOf(w); len(after) != len(before)-1 || w.Secrets() != n {
		w.TB.Errorf("%s: %d targets became %d, %d secrets %d", typ, len(before), len(after), n, w.Secrets())
	}
}

const (
	words12 = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	words24 = "letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic bless"
)

// The project's vectors: what is imported has their addresses, and exports their
// private keys and mnemonics.
func TestImportedWalletsAreTheVectors(t *testing.T) {
	raw, err := os.ReadFile("../../chain/testdata/derivation.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Mnemonics map[string]struct{ Mnemonic, Passphrase string }
		Vectors   []struct {
			Mnemonic, Curve, Path, Address string
			AddressFormat                  string `json:"address_format"`
			PrivateKey                     string `json:"private_key_hex"`
		}
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, m := range f.Mnemonics {
		w := activitytest.New(t)
		text := m.Mnemonic
		if m.Passphrase != "" {
			text += "\n" + m.Passphrase
		}
		id := importWallet(w, name, text)["walletId"]
		to := newReceiver(w)
		seen := map[string]bool{}
		for _, v := range f.Vectors {
			if v.Mnemonic != name || v.Address == "" || !slices.Contains([]string{"COMPRESSED", "UNCOMPRESSED", "ETHEREUM", "SOLANA"}, strings.TrimPrefix(v.AddressFormat, "ADDRESS_FORMAT_")) ||
				seen[v.AddressFormat+v.Path+v.Curve] || seen[v.Address] {
				continue
			}
			seen[v.AddressFormat+v.Path+v.Curve], seen[v.Address] = true, true
			n++
			a := object{"curve": v.Curve, "path": v.Path, "pathFormat": "PATH_FORMAT_BIP32", "addressFormat": v.AddressFormat}
			got := activitytest.List(w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{a}}), "addresses")[0]
			if got != v.Address {
				t.Errorf("%s %s %s: %s, want %s", name, v.AddressFormat, v.Path, got, v.Address)
				continue
			}
			r := w.Run("EXPORT_WALLET_ACCOUNT", object{"address": got, "targetPublicKey": to.public()})
			if key := exportedTo(w, to, r["exportBundle"]); hex.EncodeToString([]byte(key)) != v.PrivateKey || r["address"] != got {
				t.Errorf("%s %s: another private key", name, v.Path)
			}
		}
		r := w.Run("EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to.public(), "language": "MNEMONIC_LANGUAGE_ENGLISH"})
		if got := exportedTo(w, to, r["exportBundle"]); got != text || r["walletId"] != id {
			t.Errorf("%s: another mnemonic", name)
		}
	}
	if n < 20 {
		t.Errorf("%d vectors", n)
	}
}

func TestImportWallet(t *testing.T) {
	w := activitytest.New(t)
	r := importWallet(w, "Old", words12+"\nphrase", activitytest.EthAccount(0), activitytest.Account("ED25519", "m/44'/501'/0'/0'", "SOLANA"))
	addresses := activitytest.List(r, "addresses")
	if len(addresses) != 2 || len(w.Last.Claims) != 2 || w.Last.Claims[0].Address.WalletID != r["walletId"] || w.Last.Claims[1].Address.Address != addresses[1] {
		t.Errorf("%v", r)
	}
	rec, err := w.Tx().Wallet(activitytest.MustID(r["walletId"]))
	w.Must(err)
	if rec.Name != "Old" || rec.Words != 12 || !rec.Imported || rec.Exported || rec.Accounts != 2 || len(rec.Passphrase) == 0 || rec.CreatedMs != activitytest.Start {
		t.Errorf("%+v", rec)
	}
	if o := w.Organization(); o.Wallets != 1 || len(targetsOf(w)) != 0 {
		t.Errorf("%+v, %d targets", o, len(targetsOf(w)))
	}
	for _, a := range addresses {
		if a[0] == '0' {
			w.Sign(a, "00")
		}
	}
	// Without a passphrase none is stored, and the keys are others.
	plain := importWallet(w, "Plain", words12, activitytest.EthAccount(0))
	if rec, _ := w.Tx().Wallet(activitytest.MustID(plain["walletId"])); len(rec.Passphrase) != 0 || activitytest.List(plain, "addresses")[0] == addresses[0] {
		t.Errorf("%+v", rec)
	}
	if r := importWallet(w, "No accounts", words24); len(activitytest.List(r, "addresses")) != 0 {
		t.Errorf("%v", r)
	}
}

func TestImportRefused(t *testing.T) {
	w := activitytest.New(t)
	target := targetFor(w, "WALLET")
	seal := func(plain string) string { return w.SealTo(target, plain) }
	w.Run("CREATE_WALLET", activitytest.Wallet("Taken"))
	w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{activitytest.PrivateKey("Taken", "SECP256K1")}})
	n := len(targetsOf(w))
	// What is refused before the bundle is opened spends no target.
	for name, c := range map[string]struct {
		params object
		says   string
	}{
		"name taken": {walletIn(w, "Taken", seal(words12)), "wallet label must be unique"}, "no name": {walletIn(w, "", seal(words12)), "missing wallet params"},
		"no bundle": {walletIn(w, "x", ""), "encryptedBundle"}, "text": {walletIn(w, "x", words12), "invalid bundle"}, "hex": {walletIn(w, "x", "00"), "invalid bundle"},
		"same path twice": {walletIn(w, "x", seal(words12), activitytest.EthAccount(0), activitytest.EthAccount(0)), "path must be unique"},
		"bad path":        {walletIn(w, "x", seal(words12), activitytest.Account("SECP256K1", "m/0h", "ETHEREUM")), "invalid path"},
		"bad format":      {walletIn(w, "x", seal(words12), activitytest.Account("SECP256K1", "m/0", "SOLANA")), "invalid curve"},
		"other key":       {walletIn(w, "x", w.SealTo(newReceiver(w).public(), words12)), "not encrypted to an import target"},
		"of no key":       {walletIn(w, "x", activitytest.SomeBundle), "not encrypted to an import target"},
		"too long":        {walletIn(w, "x", seal(strings.Repeat("x", secret.MaxSize+1))), "invalid bundle"},
	} {
		w.Refuse("IMPORT_WALLET", c.params, 3, c.says)
		if len(targetsOf(w)) != n {
			t.Fatalf("%s: the target is gone", name)
		}
	}
	for _, id := range []string{"", "x", "6BA7B8109DAD41D180B400C04FD430C8"} {
		for _, typ := range []string{"INIT_IMPORT_WALLET", "INIT_IMPORT_PRIVATE_KEY"} {
			w.Refuse(typ, object{"userId": id}, 3, "userId")
		}
	}
	// A target of the other kind does not open it, and is not spent.
	w.Refuse("IMPORT_PRIVATE_KEY", keyIn(w, "x", "SECP256K1", seal(strings.Repeat("k", 32))), 3, "not encrypted to an import target")
	w.Refuse("IMPORT_WALLET", walletIn(w, "x", w.SealTo(targetFor(w, "PRIVATE_KEY"), words12)), 3, "not encrypted to an import target")
	// What is refused behind the opening spends it, whatever it is.
	for i, plain := range []string{"legal", strings.ToUpper(words12), strings.Replace(words12, "yellow", "year", 1), words12 + " ", words12 + "\nü", strings.Repeat("\x00", 100),
		strings.Repeat("あいこくしん ", 11) + "あおぞら", words12 + "\n" + strings.Repeat("x", keys.MaxPassphrase+1)} {
		if i > 0 {
			target = targetFor(w, "WALLET")
		}
		spent(w, "IMPORT_WALLET", walletIn(w, "x", seal(plain), activitytest.EthAccount(0)), "invalid mnemonic")
		w.Refuse("IMPORT_WALLET", walletIn(w, "x", seal(words12)), 3, "not encrypted to an import target") // it is gone
	}
	for _, c := range []struct{ curve, hex string }{
		{"SECP256K1", strings.Repeat("00", 32)}, {"SECP256K1", strings.Repeat("ff", 32)}, {"P256", strings.Repeat("ff", 32)}, {"P256", strings.Repeat("00", 32)},
		{"SECP256K1", "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"}, {"P256", "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"},
		{"ED25519", strings.Repeat("11", 31)}, {"ED25519", strings.Repeat("11", 64)}, {"SECP256K1", strings.Repeat("11", 33)}, {"P256", "11"},
	} {
		b, _ := hex.DecodeString(c.hex)
		spent(w, "IMPORT_PRIVATE_KEY", keyIn(w, "x", c.curve, w.SealTo(targetFor(w, "PRIVATE_KEY"), string(b))), "invalid private key")
	}
	key := w.SealTo(targetFor(w, "PRIVATE_KEY"), strings.Repeat("k", 32))
	w.Refuse("IMPORT_PRIVATE_KEY", keyIn(w, "Taken", "SECP256K1", key), 3, "private key label must be unique")
	w.Refuse("IMPORT_PRIVATE_KEY", keyIn(w, "x", "ED25519", key, "ETHEREUM"), 3, "invalid curve")
	w.Refuse("IMPORT_PRIVATE_KEY", keyIn(w, "x", "SECP256K1", key, "ETHEREUM", "ETHEREUM"), 3, "named twice")
	w.Refuse("IMPORT_PRIVATE_KEY", keyIn(w, "x", "X", key), 3, "invalid curve")
	w.Run("IMPORT_PRIVATE_KEY", keyIn(w, "x", "SECP256K1", key)) // and still it is good
}

// A target is of one user of one organization, for one import, and not for ever.
func TestImportTargets(t *testing.T) {
	w := activitytest.New(t)
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	target := targetFor(w, "WALLET")
	sealed := w.SealTo(target, words12)
	targetFor(sub, "WALLET")
	sub.Refuse("IMPORT_WALLET", walletIn(sub, "x", sealed), 3, "not encrypted to an import target")

	mallory := w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.User("Mallory", activitytest.APIKey("m", w.FreshKey()))}})["userIds"].([]any)[0].(string)
	me := w.User
	w.User = activitytest.MustID(mallory)
	targetFor(w, "WALLET")
	w.Refuse("IMPORT_WALLET", walletIn(w, "x", sealed), 3, "not encrypted to an import target")
	w.User = me
	w.Run("IMPORT_WALLET", walletIn(w, "x", sealed))
	w.Refuse("IMPORT_WALLET", walletIn(w, "y", sealed), 3, "not encrypted to an import target") // spent
	w.Refuse("IMPORT_WALLET", walletIn(w, "y", w.SealTo(target, words24)), 3, "not encrypted to an import target")

	// Its time, to the millisecond.
	w.Now = activitytest.Start
	early := w.SealTo(targetFor(w, "WALLET"), words24)
	w.Now += org.TargetMs
	spent(w, "IMPORT_WALLET", walletIn(w, "y", early), "import target has expired")
	late := w.SealTo(targetFor(w, "WALLET"), words24)
	w.Now += org.TargetMs - 1
	w.Run("IMPORT_WALLET", walletIn(w, "y", late))

	// Nobody can tell across boots whether it was used.
	before := w.SealTo(targetFor(w, "WALLET"), "anything")
	w.Boot = w.NewID()
	spent(w, "IMPORT_WALLET", walletIn(w, "z", before), "import target has expired")

	// Ten live; an eleventh takes the place of the oldest, of either kind.
	var made []string
	for i := range org.MaxTargets + 2 {
		w.Now++
		made = append(made, targetFor(w, []string{"WALLET", "PRIVATE_KEY"}[i%2]))
	}
	if n := len(targetsOf(w)); n != org.MaxTargets {
		t.Errorf("%d targets", n)
	}
	w.Refuse("IMPORT_WALLET", walletIn(w, "z", w.SealTo(made[0], words12)), 3, "not encrypted to an import target")
	w.Refuse("IMPORT_PRIVATE_KEY", keyIn(w, "z", "ED25519", w.SealTo(made[1], strings.Repeat("k", 32))), 3, "not encrypted to an import target")
	w.Run("IMPORT_PRIVATE_KEY", keyIn(w, "z", "ED25519", w.SealTo(made[11], strings.Repeat("k", 32))))
	w.Run("IMPORT_PRIVATE_KEY", keyIn(w, "z3", "ED25519", w.SealTo(made[3], strings.Repeat("m", 32))))
	if n := len(targetsOf(w)); n != org.MaxTargets-2 {
		t.Errorf("%d targets", n)
	}
	// Those past their time go when another is asked for, and with their user.
	w.Now += org.TargetMs
	targetFor(w, "WALLET")
	if n := len(targetsOf(w)); n != 1 {
		t.Errorf("%d targets", n)
	}
	w.Run("DELETE_USERS", object{"userIds": []any{mallory}})
	if gs, err := w.Tx().Targets(activitytest.MustID(mallory)); len(gs) != 0 || err != nil {
		t.Errorf("%d targets of nobody, %v", len(gs), err)
	}
}

func TestImportPrivateKey(t *testing.T) {
	w := activitytest.New(t)
	// As the vectors have it: secp256k1 and its Ethereum address, ed25519 and its Solana one.
	for _, c := range []struct {
		curve, hex string
		formats    []string
	}{
		{"SECP256K1", "52f913cee3bfe896a486b0b7476dda86152e483d41a9f126bed8ef6f81bd4da9", []string{"ETHEREUM", "COMPRESSED"}},
		{"P256", "52f913cee3bfe896a486b0b7476dda86152e483d41a9f126bed8ef6f81bd4da9", []string{"UNCOMPRESSED"}},
		{"ED25519", "52f913cee3bfe896a486b0b7476dda86152e483d41a9f126bed8ef6f81bd4da9", []string{"SOLANA"}},
		{"ED25519", strings.Repeat("00", 32), nil},
	} {
		r := importKey(w, c.curve+c.hex[:2], c.curve, c.hex, c.formats...)
		id := r["privateKeyId"].(string)
		k := privateKeyOf(w, id)
		if !k.Imported || k.Exported || k.Disabled || len(k.Addresses) != len(c.formats) || len(r["addresses"].([]any)) != len(c.formats) || len(w.Last.Claims) != len(c.formats) || len(k.PublicKey) == 0 {
			t.Errorf("%+v", k)
		}
		to := newReceiver(w)
		r = w.Run("EXPORT_PRIVATE_KEY", object{"privateKeyId": id, "targetPublicKey": to.public()})
		if got := exportedTo(w, to, r["exportBundle"]); hex.EncodeToString([]byte(got)) != c.hex || r["privateKeyId"] != id {
			t.Errorf("%s: another key", c.curve)
		}
		if !privateKeyOf(w, id).Exported {
			t.Error("not marked as exported")
		}
		if c.curve != "ED25519" {
			w.Sign(id, "00")
		}
	}
	if o := w.Organization(); o.PrivateKeys != 4 {
		t.Errorf("%+v", o)
	}
}

// One address belongs to one key of an organization: it is what is signed with.
func TestImportedTwice(t *testing.T) {
	w := activitytest.New(t)
	first := importWallet(w, "One", words12, activitytest.EthAccount(0), activitytest.EthAccount(1))
	address := activitytest.List(first, "addresses")[0]
	spent(w, "IMPORT_WALLET", walletIn(w, "Two", w.SealTo(targetFor(w, "WALLET"), words12), activitytest.EthAccount(0)), "has this address: "+address)
	// The same words with other accounts may be, and never those of the first.
	two := importWallet(w, "Two", words12, activitytest.EthAccount(2))["walletId"]
	w.Refuse("CREATE_WALLET_ACCOUNTS", object{"walletId": two, "accounts": []any{activitytest.EthAccount(1)}}, 3, "has this address")
	w.Refuse("CREATE_WALLET_ACCOUNTS", object{"walletId": first["walletId"], "accounts": []any{activitytest.EthAccount(2)}}, 3, "has this address")
	// The key of an account, as a key of its own.
	to := newReceiver(w)
	key := exportedTo(w, to, w.Run("EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to.public()})["exportBundle"])
	spent(w, "IMPORT_PRIVATE_KEY", keyIn(w, "k", "SECP256K1", w.SealTo(targetFor(w, "PRIVATE_KEY"), key), "ETHEREUM"), "has this address: "+address)
	importKey(w, "k", "SECP256K1", hex.EncodeToString([]byte(key))) // without addresses it is only an id
	importKey(w, "other format", "SECP256K1", hex.EncodeToString([]byte(key)), "COMPRESSED")
	spent(w, "IMPORT_PRIVATE_KEY", keyIn(w, "l", "SECP256K1", w.SealTo(targetFor(w, "PRIVATE_KEY"), key), "COMPRESSED"), "has this address")
	// An account of our own whose key was handed out, imported once it was deleted.
	ours := w.Run("CREATE_WALLET", activitytest.Wallet("Ours", activitytest.EthAccount(0)))
	address = activitytest.List(ours, "addresses")[0]
	key = exportedTo(w, to, w.Run("EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to.public()})["exportBundle"])
	owner, _, err := w.Tx().ByAddress(strings.ToLower(address))
	w.Must(err)
	account, err := w.Tx().Account(owner.ID, owner.No)
	w.Must(err)
	w.Run("DELETE_WALLET_ACCOUNTS", object{"walletAccountIds": []any{account.ID().String()}})
	importKey(w, "was ours", "SECP256K1", hex.EncodeToString([]byte(key)), "ETHEREUM")
	w.Refuse("CREATE_WALLET_ACCOUNTS", object{"walletId": ours["walletId"], "accounts": []any{activitytest.EthAccount(0)}}, 3, "has this address")
	// A wallet of our own, once it has been handed out.
	mine := w.Run("CREATE_WALLET", activitytest.Wallet("Mine", activitytest.EthAccount(0)))["walletId"]
	text := exportedTo(w, to, w.Run("EXPORT_WALLET", object{"walletId": mine, "targetPublicKey": to.public()})["exportBundle"])
	copied := importWallet(w, "Copy", text, activitytest.EthAccount(5))["walletId"]
	w.Refuse("CREATE_WALLET_ACCOUNTS", object{"walletId": mine, "accounts": []any{activitytest.EthAccount(5)}}, 3, "has this address")
	w.Refuse("CREATE_WALLET_ACCOUNTS", object{"walletId": copied, "accounts": []any{activitytest.EthAccount(0)}}, 3, "has this address")
	w.Run("DELETE_WALLETS", object{"walletIds": []any{mine}})
	w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": copied, "accounts": []any{activitytest.EthAccount(0)}})
}

// What was exported may be deleted without a word, and nothing else.
func TestExportedMayBeDeleted(t *testing.T) {
	w := activitytest.New(t)
	to := newReceiver(w)
	r := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0), activitytest.EthAccount(1)))
	id := activitytest.MustID(r["walletId"])
	address := activitytest.List(r, "addresses")[0]
	accounts := func() (ids []string) {
		w.Must(w.Tx().EachAccount(id, 0, func(a *org.Account) bool { ids = append(ids, a.ID().String()); return true }))
		return ids
	}
	one := accounts()[0]
	del := func(ids ...any) object { return object{"walletAccountIds": ids} }
	w.Refuse("DELETE_WALLET_ACCOUNTS", del(one), 3, "has not been exported")
	w.Now += 5
	w.Run("EXPORT_WALLET_ACCOUNT", object{"address": strings.ToLower(address), "targetPublicKey": to.public()})
	if a, _ := w.Tx().Account(id, 1); !a.Exported || a.UpdatedMs != activitytest.Start+5 {
		t.Errorf("%+v", a)
	}
	if rec, _ := w.Tx().Wallet(id); rec.Exported {
		t.Error("the wallet of an exported account is exported")
	}
	w.Refuse("DELETE_WALLETS", object{"walletIds": []any{id.String()}}, 3, "has not been exported")
	w.Run("DELETE_WALLET_ACCOUNTS", del(one))
	w.Refuse("DELETE_WALLET_ACCOUNTS", del(accounts()[0]), 3, "has not been exported")
	w.Run("EXPORT_WALLET", object{"walletId": id.String(), "targetPublicKey": to.public()})
	if rec, _ := w.Tx().Wallet(id); !rec.Exported || rec.UpdatedMs != activitytest.Start+5 {
		t.Errorf("%+v", rec)
	}
	w.Run("DELETE_WALLET_ACCOUNTS", del(accounts()[0])) // an account counts as exported with its wallet
	w.Run("DELETE_WALLETS", object{"walletIds": []any{id.String()}})
}

func TestExportRefused(t *testing.T) {
	w := activitytest.New(t)
	to := newReceiver(w)
	made := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0)))
	id, address := made["walletId"], activitytest.List(made, "addresses")[0]
	ids := makeKeys(w, activitytest.PrivateKey("a", "SECP256K1", "ETHEREUM"), activitytest.PrivateKey("b", "ED25519"))
	nobody := w.NewID().String()
	w.Run("DISABLE_PRIVATE_KEY", object{"privateKeyId": ids[1]})
	for _, c := range []struct {
		typ    string
		params object
		code   fault.Code
		says   string
	}{
		{"EXPORT_WALLET", object{"walletId": nobody, "targetPublicKey": to.public()}, 5, "wallet not found: " + nobody},
		{"EXPORT_WALLET", object{"walletId": "x", "targetPublicKey": to.public()}, 3, "walletId"},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to.public(), "language": "MNEMONIC_LANGUAGE_KOREAN"}, 3, "is in English"},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to.public(), "language": "ENGLISH"}, 3, "language"},
		{"EXPORT_WALLET_ACCOUNT", object{"address": "0x0000000000000000000000000000000000000001", "targetPublicKey": to.public()}, 5, "wallet account not found"},
		{"EXPORT_WALLET_ACCOUNT", object{"address": nobody, "targetPublicKey": to.public()}, 5, "wallet account not found"},
		{"EXPORT_WALLET_ACCOUNT", object{"address": privateKeyOf(w, ids[0]).Addresses[0].Address, "targetPublicKey": to.public()}, 5, "wallet account not found"},
		{"EXPORT_WALLET_ACCOUNT", object{"address": "", "targetPublicKey": to.public()}, 3, "address"},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": nobody, "targetPublicKey": to.public()}, 5, "private key not found: " + nobody},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": id, "targetPublicKey": to.public()}, 5, "private key not found"},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": ids[1], "targetPublicKey": to.public()}, 3, "private key is disabled: " + ids[1]},
	} {
		w.Refuse(c.typ, c.params, c.code, c.says)
	}
	for name, key := range map[string]string{"none": "", "no hex": "zz", "0x": "0x" + to.public(), "short": to.public()[2:], "off the curve": "04" + strings.Repeat("11", 64), "infinity": strings.Repeat("00", 65),
		"of secp256k1": activitytest.NotP256, "ed25519": strings.Repeat("11", 32), "pair": to.public() + to.public()} {
		for typ, params := range map[string]object{"EXPORT_WALLET": {"walletId": id}, "EXPORT_WALLET_ACCOUNT": {"address": address}, "EXPORT_PRIVATE_KEY": {"privateKeyId": ids[0]}} {
			params["targetPublicKey"] = key
			if _, err := w.Try(typ, params); activitytest.Code(err) != fault.InvalidArgument {
				t.Errorf("%s to %s: %v", typ, name, err)
			}
		}
	}
	w.Must(w.Tx().EachWallet(func(rec *org.Wallet) bool {
		if rec.Exported {
			t.Error("a refusal marks as exported")
		}
		return true
	}))
	if privateKeyOf(w, ids[0]).Exported || privateKeyOf(w, ids[1]).Exported {
		t.Error("a refusal marks as exported")
	}
	// Both texts of a key are taken.
	short := append([]byte{2 | to.key.PublicKey().Bytes()[64]&1}, to.key.PublicKey().Bytes()[1:33]...)
	r := w.Run("EXPORT_PRIVATE_KEY", object{"privateKeyId": ids[0], "targetPublicKey": hex.EncodeToString(short)})
	if len(exportedTo(w, to, r["exportBundle"])) != 32 {
		t.Error("another size")
	}
}

// Nothing is exported without the grant of exactly this.
func TestExportNeedsItsGrant(t *testing.T) {
	w := activitytest.New(t)
	to := newReceiver(w)
	made := w.Run("CREATE_WALLET", activitytest.Wallet("One", activitytest.EthAccount(0)))
	key := makeKeys(w, activitytest.PrivateKey("a", "SECP256K1"))[0]
	for typ, params := range map[string]object{"EXPORT_WALLET": {"walletId": made["walletId"]}, "EXPORT_WALLET_ACCOUNT": {"address": activitytest.List(made, "addresses")[0]}, "EXPORT_PRIVATE_KEY": {"privateKeyId": key}} {
		params["targetPublicKey"] = to.public()
		typ = "ACTIVITY_TYPE_" + typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.Must(err)
		in, err := v.Decode(activitytest.JSON(params))
		w.Must(err)
		id := w.NewID()
		run := func(g *policy.Grant) ([]byte, error) {
			return v.Run(&activity.Tx{Tx: w.Tx(), Vault: activity.VaultOf(w.Vault), Rand: w.Rand, Keys: w.Keys, User: w.User, Activity: id, Bundles: w.Bundles, Boot: w.Boot, Grant: g}, in)
		}
		good := w.GrantFor(v, in, id)
		if out, err := run(good); err != nil {
			t.Errorf("%s: %v", typ, err)
		} else if strings.Contains(string(out), "private") && typ != "ACTIVITY_TYPE_EXPORT_PRIVATE_KEY" {
			t.Errorf("%s: %s", typ, out)
		}
		for name, g := range map[string]*policy.Grant{"none": nil, "spent": good, "to sign": w.Grant("SIGN", id), "to import": w.Grant("IMPORT", id), "zero": {}} {
			if out, err := run(g); err == nil || fault.Of(err) != nil || out != nil {
				t.Errorf("%s, %s grant: %s, %v", typ, name, out, err)
			}
		}
	}
}

// Who may, before anybody is asked: for oneself only, the root quorum included.
func TestImportIsForOneself(t *testing.T) {
	w := activitytest.New(t)
	other := w.NewID().String()
	for _, typ := range []string{"INIT_IMPORT_WALLET", "IMPORT_WALLET", "INIT_IMPORT_PRIVATE_KEY", "IMPORT_PRIVATE_KEY"} {
		typ = "ACTIVITY_TYPE_" + typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.Must(err)
		for _, bare := range []bool{true, false} {
			for user, foreign := range map[string]bool{w.Root: false, other: true, strings.ToUpper(w.Root): false} {
				m := activitytest.SampleIntent(typ)
				m["userId"] = user
				in, err := v.Decode(activitytest.JSON(m))
				if err != nil {
					continue // UUIDs are in lower case where a rule says so
				}
				q, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, bare)
				w.Must(err)
				if q.AboutAnother != foreign || q.SelfService {
					t.Errorf("%s for %s: foreign %v", typ, user, q.AboutAnother)
				}
				q.Approvals = []policy.Approval{{User: w.User}}
				d, err := policy.Decide(policy.State{RootUsers: [][16]byte{w.User}, Threshold: 1}, q)
				w.Must(err)
				if (d.Outcome == policy.Allow) == foreign || foreign && d.Basis != policy.BasisAboutAnother {
					t.Errorf("%s for %s: %v", typ, user, d.Outcome)
				}
			}
		}
	}
}

// Quotas are looked at before a target is spent.
func TestImportQuotas(t *testing.T) {
	w := activitytest.New(t)
	l := w.Limits.WithDefaults()
	w.Alter(func(tx *org.Tx) {
		o := *w.Organization()
		o.Wallets, o.PrivateKeys = uint32(l.Wallets), uint32(l.PrivateKeys)
		w.Must(tx.PutOrganization(&o))
	})
	in, key := walletIn(w, "x", w.SealTo(targetFor(w, "WALLET"), words12)), keyIn(w, "x", "ED25519", w.SealTo(targetFor(w, "PRIVATE_KEY"), strings.Repeat("k", 32)))
	w.Refuse("IMPORT_WALLET", in, 8, "at most 100 wallets")
	w.Refuse("IMPORT_PRIVATE_KEY", key, 8, "at most 1000 private keys")
	if len(targetsOf(w)) != 2 {
		t.Errorf("%d targets", len(targetsOf(w)))
	}
	w.Alter(func(tx *org.Tx) {
		o := *w.Organization()
		o.Wallets, o.PrivateKeys = uint32(l.Wallets-1), uint32(l.PrivateKeys-1)
		w.Must(tx.PutOrganization(&o))
	})
	w.Run("IMPORT_WALLET", in)
	w.Run("IMPORT_PRIVATE_KEY", key)
}

func TestWhatPoliciesReadOfTransfers(t *testing.T) {
	w := activitytest.New(t)
	made := importWallet(w, "Cold", words12, activitytest.EthAccount(3))
	id, address := made["walletId"].(string), activitytest.List(made, "addresses")[0]
	key := importKey(w, "Key", "ED25519", strings.Repeat("11", 32))["privateKeyId"].(string)
	to := newReceiver(w).public()
	short := "02" + to[2:66]
	if strings.Contains("13579bdf", to[129:]) {
		short = "03" + to[2:66]
	}
	nobody := w.NewID().String()
	for _, c := range []struct {
		typ       string
		params    object
		condition string
		want      int
	}{
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to}, "wallet.id == '" + id + "' && wallet.imported && !wallet.exported && wallet.label == 'Cold'", holds},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to}, "activity.params.target_public_key == '" + strings.ToUpper(to) + "' && activity.resource == 'WALLET' && activity.action == 'EXPORT'", holds},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": short}, "activity.params.target_public_key == '" + to + "' && activity.params.target_public_key == '" + short + "'", holds},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to}, "activity.params.target_public_key == '" + short + "' && activity.params.target_public_key in ['" + to + "']", holds},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to}, "wallet_account.address == 'x'", fails},
		{"EXPORT_WALLET", object{"walletId": nobody, "targetPublicKey": to}, "wallet.imported", fails},
		{"EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to}, "wallet.label == 'Cold' && wallet_account.address == '" + address + "' && wallet_account.path_indexes[2] == 3", holds},
		{"EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to}, "activity.params.target_public_key == '04'", not},
		{"EXPORT_WALLET_ACCOUNT", object{"address": "0x00", "targetPublicKey": to}, "wallet.imported", fails},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": key, "targetPublicKey": to}, "private_key.imported && private_key.label == 'Key' && activity.resource == 'PRIVATE_KEY'", holds},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": nobody, "targetPublicKey": to}, "private_key.imported", fails},
		{"INIT_IMPORT_WALLET", object{"userId": w.Root}, "activity.resource == 'WALLET' && activity.action == 'IMPORT'", holds},
		{"INIT_IMPORT_PRIVATE_KEY", object{"userId": w.Root}, "activity.kind == 'INIT_IMPORT_PRIVATE_KEY' && activity.action == 'IMPORT'", holds},
		{"IMPORT_WALLET", walletIn(w, "x", activitytest.SomeBundle), "activity.params.target_public_key == ''", fails},
	} {
		checkPolicy(w, c.typ, c.params, c.condition, c.want)
	}
}

// FuzzImported runs imports of anything: a secret is taken whole, or refused with
// the target spent.
func FuzzImported(f *testing.F) {
	f.Add(words12, true)
	f.Add(words24+"\nphrase", true)
	f.Add(strings.Repeat("\x01", 32), false)
	f.Fuzz(func(t *testing.T, plain string, isWallet bool) {
		if plain == "" || len(plain) > secret.MaxSize {
			return
		}
		w := activitytest.New(t)
		var r object
		var err error
		if isWallet {
			r, err = w.Try("IMPORT_WALLET", walletIn(w, "x", w.SealTo(targetFor(w, "WALLET"), plain)))
		} else {
			r, err = w.Try("IMPORT_PRIVATE_KEY", keyIn(w, "x", "SECP256K1", w.SealTo(targetFor(w, "PRIVATE_KEY"), plain)))
		}
		if len(targetsOf(w)) != 0 || err != nil && (fault.Of(err) == nil || w.Secrets() != 0) {
			t.Fatalf("%v, %d targets left", err, len(targetsOf(w)))
		}
		if err != nil {
			return
		}
		to := newReceiver(w)
		var out string
		if isWallet {
			out = exportedTo(w, to, w.Run("EXPORT_WALLET", object{"walletId": r["walletId"], "targetPublicKey": to.public()})["exportBundle"])
		} else {
			out = exportedTo(w, to, w.Run("EXPORT_PRIVATE_KEY", object{"privateKeyId": r["privateKeyId"], "targetPublicKey": to.public()})["exportBundle"])
		}
		if out != strings.TrimSuffix(plain, "\n") {
			t.Fatalf("%q became %q", plain, out)
		}
	})
}
