package activity_test

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// What a client does, with the standard library alone.

// sealTo encrypts to a target key in hex.
func (w *world) sealTo(target, plain string) string {
	w.t.Helper()
	point, err := hex.DecodeString(target)
	w.must(err)
	pk, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(point)
	w.must(err)
	enc, s, err := hpke.NewSender(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	w.must(err)
	ciphertext, err := s.Seal(append(append([]byte{}, enc...), point...), []byte(plain))
	w.must(err)
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, ciphertext)
}

// inner is the document that a server's message signs.
func (w *world) inner(text any) map[string]string {
	w.t.Helper()
	var m, in map[string]string
	w.must(json.Unmarshal([]byte(text.(string)), &m))
	if m["enclaveQuorumPublic"] != w.bundles.PublicKey() || m["version"] != "v1.0.0" {
		w.t.Errorf("%s", text)
	}
	b, err := hex.DecodeString(m["data"])
	w.must(err)
	w.must(json.Unmarshal(b, &in))
	return in
}

// A receiver takes exports.
type receiver struct{ key *ecdh.PrivateKey }

func (w *world) receiver() receiver {
	var b [32]byte
	w.rand.Read(b[:])
	k, err := ecdh.P256().NewPrivateKey(b[:])
	w.must(err)
	return receiver{k}
}

func (r receiver) public() string { return hex.EncodeToString(r.key.PublicKey().Bytes()) }

func (w *world) exported(r receiver, text any) string {
	w.t.Helper()
	in := w.inner(text)
	if in["organizationId"] != w.id.String() || len(in) != 3 {
		w.t.Errorf("%v", in)
	}
	enc, err := hex.DecodeString(in["encappedPublic"])
	w.must(err)
	ciphertext, err := hex.DecodeString(in["ciphertext"])
	w.must(err)
	k, err := hpke.NewDHKEMPrivateKey(r.key)
	w.must(err)
	from, err := hpke.NewRecipient(enc, k, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	w.must(err)
	plain, err := from.Open(append(append([]byte{}, enc...), r.key.PublicKey().Bytes()...), ciphertext)
	w.must(err)
	return string(plain)
}

// target asks for an import target and answers its public key.
func (w *world) target(what string) string {
	w.t.Helper()
	in := w.inner(w.run("INIT_IMPORT_"+what, object{"userId": w.user.String()})["importBundle"])
	if in["organizationId"] != w.id.String() || in["userId"] != w.user.String() || len(in) != 3 {
		w.t.Errorf("%v", in)
	}
	return in["targetPublic"]
}

func (w *world) walletIn(name, sealed string, accounts ...object) object {
	in := wallet(name, accounts...)
	in["userId"], in["encryptedBundle"] = w.user.String(), sealed
	return in
}

func (w *world) keyIn(name, curve, sealed string, formats ...string) object {
	in := without(privateKey(name, curve, formats...), "privateKeyTags")
	in["userId"], in["encryptedBundle"] = w.user.String(), sealed
	return in
}

// importWallet imports a mnemonic through a target of its own.
func (w *world) importWallet(name, text string, accounts ...object) object {
	w.t.Helper()
	return w.run("IMPORT_WALLET", w.walletIn(name, w.sealTo(w.target("WALLET"), text), accounts...))
}

func (w *world) importKey(name, curve, hexKey string, formats ...string) object {
	w.t.Helper()
	b, err := hex.DecodeString(hexKey)
	w.must(err)
	return w.run("IMPORT_PRIVATE_KEY", w.keyIn(name, curve, w.sealTo(w.target("PRIVATE_KEY"), string(b)), formats...))
}

func (w *world) targets() []*org.Target {
	w.t.Helper()
	gs, err := w.tx().Targets(w.user)
	w.must(err)
	return gs
}

// spent runs an import that must be refused, and must spend one target and change
// nothing else.
func (w *world) spent(typ string, params object, says string) {
	w.t.Helper()
	before, n := w.targets(), secrets(w)
	_, err := w.try(typ, params)
	e := fault.Of(err)
	if e == nil || e.Code != fault.InvalidArgument || !strings.Contains(e.Message, says) {
		w.t.Errorf("%s: %v, want %q", typ, err, says)
	}
	if after := w.targets(); len(after) != len(before)-1 || secrets(w) != n {
		w.t.Errorf("%s: %d targets became %d, %d secrets %d", typ, len(before), len(after), n, secrets(w))
	}
}

const (
	words12 = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	words24 = "letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic bless"
)

// The project's vectors: what is imported has their addresses, and exports their
// private keys and mnemonics.
func TestImportedWalletsAreTheVectors(t *testing.T) {
	raw, err := os.ReadFile("../chain/testdata/derivation.json")
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
		w := newWorld(t)
		text := m.Mnemonic
		if m.Passphrase != "" {
			text += "\n" + m.Passphrase
		}
		id := w.importWallet(name, text)["walletId"]
		to := w.receiver()
		seen := map[string]bool{}
		for _, v := range f.Vectors {
			if v.Mnemonic != name || v.Address == "" || !slices.Contains([]string{"COMPRESSED", "UNCOMPRESSED", "ETHEREUM", "SOLANA"}, strings.TrimPrefix(v.AddressFormat, "ADDRESS_FORMAT_")) ||
				seen[v.AddressFormat+v.Path+v.Curve] || seen[v.Address] {
				continue
			}
			seen[v.AddressFormat+v.Path+v.Curve], seen[v.Address] = true, true
			n++
			a := object{"curve": v.Curve, "path": v.Path, "pathFormat": "PATH_FORMAT_BIP32", "addressFormat": v.AddressFormat}
			got := list(w.run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{a}}), "addresses")[0]
			if got != v.Address {
				t.Errorf("%s %s %s: %s, want %s", name, v.AddressFormat, v.Path, got, v.Address)
				continue
			}
			r := w.run("EXPORT_WALLET_ACCOUNT", object{"address": got, "targetPublicKey": to.public()})
			if key := w.exported(to, r["exportBundle"]); hex.EncodeToString([]byte(key)) != v.PrivateKey || r["address"] != got {
				t.Errorf("%s %s: another private key", name, v.Path)
			}
		}
		r := w.run("EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to.public(), "language": "MNEMONIC_LANGUAGE_ENGLISH"})
		if got := w.exported(to, r["exportBundle"]); got != text || r["walletId"] != id {
			t.Errorf("%s: another mnemonic", name)
		}
	}
	if n < 20 {
		t.Errorf("%d vectors", n)
	}
}

func TestImportWallet(t *testing.T) {
	w := newWorld(t)
	r := w.importWallet("Old", words12+"\nphrase", ethAccount(0), account("ED25519", "m/44'/501'/0'/0'", "SOLANA"))
	addresses := list(r, "addresses")
	if len(addresses) != 2 || len(w.last.Claims) != 2 || w.last.Claims[0].Address.WalletID != r["walletId"] || w.last.Claims[1].Address.Address != addresses[1] {
		t.Errorf("%v", r)
	}
	rec, err := w.tx().Wallet(mustID(r["walletId"]))
	w.must(err)
	if rec.Name != "Old" || rec.Words != 12 || !rec.Imported || rec.Exported || rec.Accounts != 2 || len(rec.Passphrase) == 0 || rec.CreatedMs != start {
		t.Errorf("%+v", rec)
	}
	if o := mustOrganization(w); o.Wallets != 1 || len(w.targets()) != 0 {
		t.Errorf("%+v, %d targets", o, len(w.targets()))
	}
	for _, a := range addresses {
		if a[0] == '0' {
			sign(w, a, "00")
		}
	}
	// Without a passphrase none is stored, and the keys are others.
	plain := w.importWallet("Plain", words12, ethAccount(0))
	if rec, _ := w.tx().Wallet(mustID(plain["walletId"])); len(rec.Passphrase) != 0 || list(plain, "addresses")[0] == addresses[0] {
		t.Errorf("%+v", rec)
	}
	if r := w.importWallet("No accounts", words24); len(list(r, "addresses")) != 0 {
		t.Errorf("%v", r)
	}
}

func TestImportRefused(t *testing.T) {
	w := newWorld(t)
	target := w.target("WALLET")
	seal := func(plain string) string { return w.sealTo(target, plain) }
	w.run("CREATE_WALLET", wallet("Taken"))
	w.run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{privateKey("Taken", "SECP256K1")}})
	n := len(w.targets())
	// What is refused before the bundle is opened spends no target.
	for name, c := range map[string]struct {
		params object
		says   string
	}{
		"name taken": {w.walletIn("Taken", seal(words12)), "wallet label must be unique"}, "no name": {w.walletIn("", seal(words12)), "missing wallet params"},
		"no bundle": {w.walletIn("x", ""), "encryptedBundle"}, "text": {w.walletIn("x", words12), "invalid bundle"}, "hex": {w.walletIn("x", "00"), "invalid bundle"},
		"same path twice": {w.walletIn("x", seal(words12), ethAccount(0), ethAccount(0)), "path must be unique"},
		"bad path":        {w.walletIn("x", seal(words12), account("SECP256K1", "m/0h", "ETHEREUM")), "invalid path"},
		"bad format":      {w.walletIn("x", seal(words12), account("SECP256K1", "m/0", "SOLANA")), "invalid curve"},
		"other key":       {w.walletIn("x", w.sealTo(w.receiver().public(), words12)), "not encrypted to an import target"},
		"of no key":       {w.walletIn("x", someBundle), "not encrypted to an import target"},
		"too long":        {w.walletIn("x", seal(strings.Repeat("x", secret.MaxSize+1))), "invalid bundle"},
	} {
		w.refused("IMPORT_WALLET", c.params, 3, c.says)
		if len(w.targets()) != n {
			t.Fatalf("%s: the target is gone", name)
		}
	}
	for _, id := range []string{"", "x", "6BA7B8109DAD41D180B400C04FD430C8"} {
		for _, typ := range []string{"INIT_IMPORT_WALLET", "INIT_IMPORT_PRIVATE_KEY"} {
			w.refused(typ, object{"userId": id}, 3, "userId")
		}
	}
	// A target of the other kind does not open it, and is not spent.
	w.refused("IMPORT_PRIVATE_KEY", w.keyIn("x", "SECP256K1", seal(strings.Repeat("k", 32))), 3, "not encrypted to an import target")
	w.refused("IMPORT_WALLET", w.walletIn("x", w.sealTo(w.target("PRIVATE_KEY"), words12)), 3, "not encrypted to an import target")
	// What is refused behind the opening spends it, whatever it is.
	for i, plain := range []string{"legal", strings.ToUpper(words12), strings.Replace(words12, "yellow", "year", 1), words12 + " ", words12 + "\nü", strings.Repeat("\x00", 100),
		strings.Repeat("あいこくしん ", 11) + "あおぞら", words12 + "\n" + strings.Repeat("x", keys.MaxPassphrase+1)} {
		if i > 0 {
			target = w.target("WALLET")
		}
		w.spent("IMPORT_WALLET", w.walletIn("x", seal(plain), ethAccount(0)), "invalid mnemonic")
		w.refused("IMPORT_WALLET", w.walletIn("x", seal(words12)), 3, "not encrypted to an import target") // it is gone
	}
	for _, c := range []struct{ curve, hex string }{
		{"SECP256K1", strings.Repeat("00", 32)}, {"SECP256K1", strings.Repeat("ff", 32)}, {"P256", strings.Repeat("ff", 32)}, {"P256", strings.Repeat("00", 32)},
		{"SECP256K1", "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"}, {"P256", "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"},
		{"ED25519", strings.Repeat("11", 31)}, {"ED25519", strings.Repeat("11", 64)}, {"SECP256K1", strings.Repeat("11", 33)}, {"P256", "11"},
	} {
		b, _ := hex.DecodeString(c.hex)
		w.spent("IMPORT_PRIVATE_KEY", w.keyIn("x", c.curve, w.sealTo(w.target("PRIVATE_KEY"), string(b))), "invalid private key")
	}
	key := w.sealTo(w.target("PRIVATE_KEY"), strings.Repeat("k", 32))
	w.refused("IMPORT_PRIVATE_KEY", w.keyIn("Taken", "SECP256K1", key), 3, "private key label must be unique")
	w.refused("IMPORT_PRIVATE_KEY", w.keyIn("x", "ED25519", key, "ETHEREUM"), 3, "invalid curve")
	w.refused("IMPORT_PRIVATE_KEY", w.keyIn("x", "SECP256K1", key, "ETHEREUM", "ETHEREUM"), 3, "named twice")
	w.refused("IMPORT_PRIVATE_KEY", w.keyIn("x", "X", key), 3, "invalid curve")
	w.run("IMPORT_PRIVATE_KEY", w.keyIn("x", "SECP256K1", key)) // and still it is good
}

// A target is of one user of one organization, for one import, and not for ever.
func TestImportTargets(t *testing.T) {
	w := newWorld(t)
	sub := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, rootUser("Root", apiKey("r", w.freshKey()))))["subOrganizationId"])
	target := w.target("WALLET")
	sealed := w.sealTo(target, words12)
	sub.target("WALLET")
	sub.refused("IMPORT_WALLET", sub.walletIn("x", sealed), 3, "not encrypted to an import target")

	mallory := w.run("CREATE_USERS_V4", object{"users": []any{user("Mallory", apiKey("m", w.freshKey()))}})["userIds"].([]any)[0].(string)
	me := w.user
	w.user = mustID(mallory)
	w.target("WALLET")
	w.refused("IMPORT_WALLET", w.walletIn("x", sealed), 3, "not encrypted to an import target")
	w.user = me
	w.run("IMPORT_WALLET", w.walletIn("x", sealed))
	w.refused("IMPORT_WALLET", w.walletIn("y", sealed), 3, "not encrypted to an import target") // spent
	w.refused("IMPORT_WALLET", w.walletIn("y", w.sealTo(target, words24)), 3, "not encrypted to an import target")

	// Its time, to the millisecond.
	w.now = start
	early := w.sealTo(w.target("WALLET"), words24)
	w.now += org.TargetMs
	w.spent("IMPORT_WALLET", w.walletIn("y", early), "import target has expired")
	late := w.sealTo(w.target("WALLET"), words24)
	w.now += org.TargetMs - 1
	w.run("IMPORT_WALLET", w.walletIn("y", late))

	// Nobody can tell across boots whether it was used.
	before := w.sealTo(w.target("WALLET"), "anything")
	w.boot = w.newID()
	w.spent("IMPORT_WALLET", w.walletIn("z", before), "import target has expired")

	// Ten live; an eleventh takes the place of the oldest, of either kind.
	var made []string
	for i := range org.MaxTargets + 2 {
		w.now++
		made = append(made, w.target([]string{"WALLET", "PRIVATE_KEY"}[i%2]))
	}
	if n := len(w.targets()); n != org.MaxTargets {
		t.Errorf("%d targets", n)
	}
	w.refused("IMPORT_WALLET", w.walletIn("z", w.sealTo(made[0], words12)), 3, "not encrypted to an import target")
	w.refused("IMPORT_PRIVATE_KEY", w.keyIn("z", "ED25519", w.sealTo(made[1], strings.Repeat("k", 32))), 3, "not encrypted to an import target")
	w.run("IMPORT_PRIVATE_KEY", w.keyIn("z", "ED25519", w.sealTo(made[11], strings.Repeat("k", 32))))
	w.run("IMPORT_PRIVATE_KEY", w.keyIn("z3", "ED25519", w.sealTo(made[3], strings.Repeat("m", 32))))
	if n := len(w.targets()); n != org.MaxTargets-2 {
		t.Errorf("%d targets", n)
	}
	// Those past their time go when another is asked for, and with their user.
	w.now += org.TargetMs
	w.target("WALLET")
	if n := len(w.targets()); n != 1 {
		t.Errorf("%d targets", n)
	}
	w.run("DELETE_USERS", object{"userIds": []any{mallory}})
	if gs, err := w.tx().Targets(mustID(mallory)); len(gs) != 0 || err != nil {
		t.Errorf("%d targets of nobody, %v", len(gs), err)
	}
}

func TestImportPrivateKey(t *testing.T) {
	w := newWorld(t)
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
		r := w.importKey(c.curve+c.hex[:2], c.curve, c.hex, c.formats...)
		id := r["privateKeyId"].(string)
		k := w.privateKey(id)
		if !k.Imported || k.Exported || k.Disabled || len(k.Addresses) != len(c.formats) || len(r["addresses"].([]any)) != len(c.formats) || len(w.last.Claims) != len(c.formats) || len(k.PublicKey) == 0 {
			t.Errorf("%+v", k)
		}
		to := w.receiver()
		r = w.run("EXPORT_PRIVATE_KEY", object{"privateKeyId": id, "targetPublicKey": to.public()})
		if got := w.exported(to, r["exportBundle"]); hex.EncodeToString([]byte(got)) != c.hex || r["privateKeyId"] != id {
			t.Errorf("%s: another key", c.curve)
		}
		if !w.privateKey(id).Exported {
			t.Error("not marked as exported")
		}
		if c.curve != "ED25519" {
			sign(w, id, "00")
		}
	}
	if o := mustOrganization(w); o.PrivateKeys != 4 {
		t.Errorf("%+v", o)
	}
}

// One address belongs to one key of an organization: it is what is signed with.
func TestImportedTwice(t *testing.T) {
	w := newWorld(t)
	first := w.importWallet("One", words12, ethAccount(0), ethAccount(1))
	address := list(first, "addresses")[0]
	w.spent("IMPORT_WALLET", w.walletIn("Two", w.sealTo(w.target("WALLET"), words12), ethAccount(0)), "has this address: "+address)
	// The same words with other accounts may be, and never those of the first.
	two := w.importWallet("Two", words12, ethAccount(2))["walletId"]
	w.refused("CREATE_WALLET_ACCOUNTS", object{"walletId": two, "accounts": []any{ethAccount(1)}}, 3, "has this address")
	w.refused("CREATE_WALLET_ACCOUNTS", object{"walletId": first["walletId"], "accounts": []any{ethAccount(2)}}, 3, "has this address")
	// The key of an account, as a key of its own.
	to := w.receiver()
	key := w.exported(to, w.run("EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to.public()})["exportBundle"])
	w.spent("IMPORT_PRIVATE_KEY", w.keyIn("k", "SECP256K1", w.sealTo(w.target("PRIVATE_KEY"), key), "ETHEREUM"), "has this address: "+address)
	w.importKey("k", "SECP256K1", hex.EncodeToString([]byte(key))) // without addresses it is only an id
	w.importKey("other format", "SECP256K1", hex.EncodeToString([]byte(key)), "COMPRESSED")
	w.spent("IMPORT_PRIVATE_KEY", w.keyIn("l", "SECP256K1", w.sealTo(w.target("PRIVATE_KEY"), key), "COMPRESSED"), "has this address")
	// An account of our own whose key was handed out, imported once it was deleted.
	ours := w.run("CREATE_WALLET", wallet("Ours", ethAccount(0)))
	address = list(ours, "addresses")[0]
	key = w.exported(to, w.run("EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to.public()})["exportBundle"])
	owner, _, err := w.tx().ByAddress(strings.ToLower(address))
	w.must(err)
	account, err := w.tx().Account(owner.ID, owner.No)
	w.must(err)
	w.run("DELETE_WALLET_ACCOUNTS", object{"walletAccountIds": []any{account.ID().String()}})
	w.importKey("was ours", "SECP256K1", hex.EncodeToString([]byte(key)), "ETHEREUM")
	w.refused("CREATE_WALLET_ACCOUNTS", object{"walletId": ours["walletId"], "accounts": []any{ethAccount(0)}}, 3, "has this address")
	// A wallet of our own, once it has been handed out.
	mine := w.run("CREATE_WALLET", wallet("Mine", ethAccount(0)))["walletId"]
	text := w.exported(to, w.run("EXPORT_WALLET", object{"walletId": mine, "targetPublicKey": to.public()})["exportBundle"])
	copied := w.importWallet("Copy", text, ethAccount(5))["walletId"]
	w.refused("CREATE_WALLET_ACCOUNTS", object{"walletId": mine, "accounts": []any{ethAccount(5)}}, 3, "has this address")
	w.refused("CREATE_WALLET_ACCOUNTS", object{"walletId": copied, "accounts": []any{ethAccount(0)}}, 3, "has this address")
	w.run("DELETE_WALLETS", object{"walletIds": []any{mine}})
	w.run("CREATE_WALLET_ACCOUNTS", object{"walletId": copied, "accounts": []any{ethAccount(0)}})
}

// What was exported may be deleted without a word, and nothing else.
func TestExportedMayBeDeleted(t *testing.T) {
	w := newWorld(t)
	to := w.receiver()
	r := w.run("CREATE_WALLET", wallet("One", ethAccount(0), ethAccount(1)))
	id := mustID(r["walletId"])
	address := list(r, "addresses")[0]
	accounts := func() (ids []string) {
		w.must(w.tx().EachAccount(id, 0, func(a *org.Account) bool { ids = append(ids, a.ID().String()); return true }))
		return ids
	}
	one := accounts()[0]
	del := func(ids ...any) object { return object{"walletAccountIds": ids} }
	w.refused("DELETE_WALLET_ACCOUNTS", del(one), 3, "has not been exported")
	w.now += 5
	w.run("EXPORT_WALLET_ACCOUNT", object{"address": strings.ToLower(address), "targetPublicKey": to.public()})
	if a, _ := w.tx().Account(id, 1); !a.Exported || a.UpdatedMs != start+5 {
		t.Errorf("%+v", a)
	}
	if rec, _ := w.tx().Wallet(id); rec.Exported {
		t.Error("the wallet of an exported account is exported")
	}
	w.refused("DELETE_WALLETS", object{"walletIds": []any{id.String()}}, 3, "has not been exported")
	w.run("DELETE_WALLET_ACCOUNTS", del(one))
	w.refused("DELETE_WALLET_ACCOUNTS", del(accounts()[0]), 3, "has not been exported")
	w.run("EXPORT_WALLET", object{"walletId": id.String(), "targetPublicKey": to.public()})
	if rec, _ := w.tx().Wallet(id); !rec.Exported || rec.UpdatedMs != start+5 {
		t.Errorf("%+v", rec)
	}
	w.run("DELETE_WALLET_ACCOUNTS", del(accounts()[0])) // an account counts as exported with its wallet
	w.run("DELETE_WALLETS", object{"walletIds": []any{id.String()}})
}

func TestExportRefused(t *testing.T) {
	w := newWorld(t)
	to := w.receiver()
	made := w.run("CREATE_WALLET", wallet("One", ethAccount(0)))
	id, address := made["walletId"], list(made, "addresses")[0]
	ids := w.privateKeys(privateKey("a", "SECP256K1", "ETHEREUM"), privateKey("b", "ED25519"))
	nobody := w.newID().String()
	w.run("DISABLE_PRIVATE_KEY", object{"privateKeyId": ids[1]})
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
		{"EXPORT_WALLET_ACCOUNT", object{"address": w.privateKey(ids[0]).Addresses[0].Address, "targetPublicKey": to.public()}, 5, "wallet account not found"},
		{"EXPORT_WALLET_ACCOUNT", object{"address": "", "targetPublicKey": to.public()}, 3, "address"},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": nobody, "targetPublicKey": to.public()}, 5, "private key not found: " + nobody},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": id, "targetPublicKey": to.public()}, 5, "private key not found"},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": ids[1], "targetPublicKey": to.public()}, 3, "private key is disabled: " + ids[1]},
	} {
		w.refused(c.typ, c.params, c.code, c.says)
	}
	for name, key := range map[string]string{"none": "", "no hex": "zz", "0x": "0x" + to.public(), "short": to.public()[2:], "off the curve": "04" + strings.Repeat("11", 64), "infinity": strings.Repeat("00", 65),
		"of secp256k1": notP256, "ed25519": strings.Repeat("11", 32), "pair": to.public() + to.public()} {
		for typ, params := range map[string]object{"EXPORT_WALLET": {"walletId": id}, "EXPORT_WALLET_ACCOUNT": {"address": address}, "EXPORT_PRIVATE_KEY": {"privateKeyId": ids[0]}} {
			params["targetPublicKey"] = key
			if _, err := w.try(typ, params); code(err) != fault.InvalidArgument {
				t.Errorf("%s to %s: %v", typ, name, err)
			}
		}
	}
	w.must(w.tx().EachWallet(func(rec *org.Wallet) bool {
		if rec.Exported {
			t.Error("a refusal marks as exported")
		}
		return true
	}))
	if w.privateKey(ids[0]).Exported || w.privateKey(ids[1]).Exported {
		t.Error("a refusal marks as exported")
	}
	// Both texts of a key are taken.
	short := append([]byte{2 | to.key.PublicKey().Bytes()[64]&1}, to.key.PublicKey().Bytes()[1:33]...)
	r := w.run("EXPORT_PRIVATE_KEY", object{"privateKeyId": ids[0], "targetPublicKey": hex.EncodeToString(short)})
	if len(w.exported(to, r["exportBundle"])) != 32 {
		t.Error("another size")
	}
}

// Nothing is exported without the grant of exactly this.
func TestExportNeedsItsGrant(t *testing.T) {
	w := newWorld(t)
	to := w.receiver()
	made := w.run("CREATE_WALLET", wallet("One", ethAccount(0)))
	key := w.privateKeys(privateKey("a", "SECP256K1"))[0]
	for typ, params := range map[string]object{"EXPORT_WALLET": {"walletId": made["walletId"]}, "EXPORT_WALLET_ACCOUNT": {"address": list(made, "addresses")[0]}, "EXPORT_PRIVATE_KEY": {"privateKeyId": key}} {
		params["targetPublicKey"] = to.public()
		typ = "ACTIVITY_TYPE_" + typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.must(err)
		in, err := v.Decode(text(params))
		w.must(err)
		id := w.newID()
		run := func(g *policy.Grant) ([]byte, error) {
			return v.Run(&activity.Tx{Tx: w.tx(), Vault: w.vault, Rand: w.rand, Keys: w.keys, User: w.user, Activity: id, Bundles: w.bundles, Boot: w.boot, Grant: g}, in)
		}
		good := w.granted(v, in, id)
		if out, err := run(good); err != nil {
			t.Errorf("%s: %v", typ, err)
		} else if strings.Contains(string(out), "private") && typ != "ACTIVITY_TYPE_EXPORT_PRIVATE_KEY" {
			t.Errorf("%s: %s", typ, out)
		}
		for name, g := range map[string]*policy.Grant{"none": nil, "spent": good, "to sign": w.grant("SIGN", id), "to import": w.grant("IMPORT", id), "zero": {}} {
			if out, err := run(g); err == nil || fault.Of(err) != nil || out != nil {
				t.Errorf("%s, %s grant: %s, %v", typ, name, out, err)
			}
		}
	}
}

// Who may, before anybody is asked: for oneself only, the root quorum included.
func TestImportIsForOneself(t *testing.T) {
	w := newWorld(t)
	other := w.newID().String()
	for _, typ := range []string{"INIT_IMPORT_WALLET", "IMPORT_WALLET", "INIT_IMPORT_PRIVATE_KEY", "IMPORT_PRIVATE_KEY"} {
		typ = "ACTIVITY_TYPE_" + typ
		v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
		w.must(err)
		for _, bare := range []bool{true, false} {
			for user, foreign := range map[string]bool{w.root: false, other: true, strings.ToUpper(w.root): false} {
				m := sample(api.Activities[typ].IntentType)
				m["userId"] = user
				in, err := v.Decode(text(m))
				if err != nil {
					continue // UUIDs are in lower case where a rule says so
				}
				q, err := v.Question(w.tx(), in, w.newID(), w.user, bare)
				w.must(err)
				if q.Foreign != foreign || q.Self {
					t.Errorf("%s for %s: foreign %v", typ, user, q.Foreign)
				}
				q.Approvals = []policy.Approval{{User: w.user}}
				d, err := policy.Decide(policy.State{RootUsers: [][16]byte{w.user}, Threshold: 1}, q)
				w.must(err)
				if (d.Outcome == policy.Allow) == foreign || foreign && d.Basis != policy.BasisForeign {
					t.Errorf("%s for %s: %v", typ, user, d.Outcome)
				}
			}
		}
	}
}

// Quotas are looked at before a target is spent.
func TestImportQuotas(t *testing.T) {
	w := newWorld(t)
	l := w.limits.WithDefaults()
	alter(w, func(tx *org.Tx) {
		o := *mustOrganization(w)
		o.Wallets, o.PrivateKeys = uint32(l.Wallets), uint32(l.PrivateKeys)
		w.must(tx.PutOrganization(&o))
	})
	in, key := w.walletIn("x", w.sealTo(w.target("WALLET"), words12)), w.keyIn("x", "ED25519", w.sealTo(w.target("PRIVATE_KEY"), strings.Repeat("k", 32)))
	w.refused("IMPORT_WALLET", in, 8, "at most 100 wallets")
	w.refused("IMPORT_PRIVATE_KEY", key, 8, "at most 1000 private keys")
	if len(w.targets()) != 2 {
		t.Errorf("%d targets", len(w.targets()))
	}
	alter(w, func(tx *org.Tx) {
		o := *mustOrganization(w)
		o.Wallets, o.PrivateKeys = uint32(l.Wallets-1), uint32(l.PrivateKeys-1)
		w.must(tx.PutOrganization(&o))
	})
	w.run("IMPORT_WALLET", in)
	w.run("IMPORT_PRIVATE_KEY", key)
}

func TestWhatPoliciesReadOfTransfers(t *testing.T) {
	w := newWorld(t)
	made := w.importWallet("Cold", words12, ethAccount(3))
	id, address := made["walletId"].(string), list(made, "addresses")[0]
	key := w.importKey("Key", "ED25519", strings.Repeat("11", 32))["privateKeyId"].(string)
	to := w.receiver().public()
	nobody := w.newID().String()
	const holds, not, fails = 1, 0, -1
	for _, c := range []struct {
		typ       string
		params    object
		condition string
		want      int
	}{
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to}, "wallet.id == '" + id + "' && wallet.imported && !wallet.exported && wallet.label == 'Cold'", holds},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to}, "activity.params.target_public_key == '" + strings.ToUpper(to) + "' && activity.resource == 'WALLET' && activity.action == 'EXPORT'", holds},
		{"EXPORT_WALLET", object{"walletId": id, "targetPublicKey": to}, "wallet_account.address == 'x'", fails},
		{"EXPORT_WALLET", object{"walletId": nobody, "targetPublicKey": to}, "wallet.imported", fails},
		{"EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to}, "wallet.label == 'Cold' && wallet_account.address == '" + address + "' && wallet_account.path_indexes[2] == 3", holds},
		{"EXPORT_WALLET_ACCOUNT", object{"address": address, "targetPublicKey": to}, "activity.params.target_public_key == '04'", not},
		{"EXPORT_WALLET_ACCOUNT", object{"address": "0x00", "targetPublicKey": to}, "wallet.imported", fails},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": key, "targetPublicKey": to}, "private_key.imported && private_key.label == 'Key' && activity.resource == 'PRIVATE_KEY'", holds},
		{"EXPORT_PRIVATE_KEY", object{"privateKeyId": nobody, "targetPublicKey": to}, "private_key.imported", fails},
		{"INIT_IMPORT_WALLET", object{"userId": w.root}, "activity.resource == 'WALLET' && activity.action == 'IMPORT'", holds},
		{"INIT_IMPORT_PRIVATE_KEY", object{"userId": w.root}, "activity.kind == 'INIT_IMPORT_PRIVATE_KEY' && activity.action == 'IMPORT'", holds},
		{"IMPORT_WALLET", w.walletIn("x", someBundle), "activity.params.target_public_key == ''", fails},
	} {
		yes, err := w.asks(c.typ, c.params, c.condition)
		got := not
		if err != nil {
			got = fails
		} else if yes {
			got = holds
		}
		if got != c.want {
			t.Errorf("%s: %s: %d (%v), want %d", c.typ, c.condition, got, err, c.want)
		}
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
		w := newWorld(t)
		var r object
		var err error
		if isWallet {
			r, err = w.try("IMPORT_WALLET", w.walletIn("x", w.sealTo(w.target("WALLET"), plain)))
		} else {
			r, err = w.try("IMPORT_PRIVATE_KEY", w.keyIn("x", "SECP256K1", w.sealTo(w.target("PRIVATE_KEY"), plain)))
		}
		if len(w.targets()) != 0 || err != nil && (fault.Of(err) == nil || secrets(w) != 0) {
			t.Fatalf("%v, %d targets left", err, len(w.targets()))
		}
		if err != nil {
			return
		}
		to := w.receiver()
		var out string
		if isWallet {
			out = w.exported(to, w.run("EXPORT_WALLET", object{"walletId": r["walletId"], "targetPublicKey": to.public()})["exportBundle"])
		} else {
			out = w.exported(to, w.run("EXPORT_PRIVATE_KEY", object{"privateKeyId": r["privateKeyId"], "targetPublicKey": to.public()})["exportBundle"])
		}
		if out != strings.TrimSuffix(plain, "\n") {
			t.Fatalf("%q became %q", plain, out)
		}
	})
}
