package keys_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// shelf is a vault that opens under the id of the owner alone.
type shelf map[[16]byte][]byte

func (v shelf) Open(owner [16]byte, sealed []byte) (secret.Secret, error) {
	if b, ok := v[owner]; !ok || string(b) != string(sealed) {
		return secret.Secret{}, errors.New("not sealed for this owner")
	}
	return secret.From(append([]byte(nil), sealed...))
}

// what is done with a key and a grant; each must refuse what the test shows it.
type doing struct {
	name, action string
	do           func(h *keys.Holder, k policy.Key) error
}

// TestGrants does everything that takes a grant with the right one, and with each that
// was made for something else.
func TestGrants(t *testing.T) {
	mine, other := [16]byte{15: 21}, [16]byte{15: 22}
	vault := shelf{mine: []byte(strings.Repeat("m", 32)), other: []byte(strings.Repeat("o", 32))}
	digest := chain.Digest{Scheme: chain.ECDSA, Message: make([]byte, 32)}
	path, err := keys.ParsePath("m/0")
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(k policy.Key) [2][]byte { return [2][]byte{vault[k.Owner]} }
	account := func(h *keys.Holder, action string, k policy.Key) (*keys.PrivateKey, error) {
		if k.No == 0 {
			return h.OpenKey(action, k.Owner, chain.Secp256k1, vault[k.Owner])
		}
		w, err := h.OpenWallet(action, k, sealed(k))
		if err != nil {
			return nil, err
		}
		return w.Derive(chain.Secp256k1, path)
	}
	// cached is a key that was opened before, under another grant, as of the cache.
	cached := func(action string, k policy.Key) *keys.PrivateKey {
		h := granted(t, action, k)
		h.Vault = keys.VaultOf(vault)
		key, err := account(h, action, k)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	// wallet is one that was opened under another grant.
	wallet := func(k policy.Key) *keys.Wallet {
		h := granted(t, keys.ActionSign, k)
		h.Vault = keys.VaultOf(vault)
		w, err := h.OpenWallet(keys.ActionSign, k, sealed(k))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	stored := []doing{
		{"sign for Spark", keys.ActionSign, func(h *keys.Holder, k policy.Key) error {
			_, err := h.SignFrost(rand.Reader, wallet(k), nil)
			return err
		}},
		{"sign a transfer of Spark", keys.ActionSign, func(h *keys.Holder, k policy.Key) error {
			_, err := h.PrepareTransfer(rand.Reader, wallet(k), &keys.SparkTransfer{Account: "m/8797555'/0'"})
			return err
		}},
		{"sign a claim of Spark", keys.ActionSign, func(h *keys.Holder, k policy.Key) error {
			_, err := h.ClaimTransfer(rand.Reader, wallet(k), &keys.SparkClaim{Account: "m/8797555'/0'"})
			return err
		}},
		{"sign for a preimage", keys.ActionSign, func(h *keys.Holder, k policy.Key) error {
			_, _, err := h.SharePreimage(rand.Reader, k, &keys.SparkGroup{Threshold: 1})
			return err
		}},
		{"open a wallet to sign", keys.ActionSign, func(h *keys.Holder, k policy.Key) error {
			_, err := h.OpenWallet(keys.ActionSign, k, sealed(k))
			return err
		}},
		{"open a wallet for more accounts", keys.ActionCreate, func(h *keys.Holder, k policy.Key) error {
			_, err := h.OpenWallet(keys.ActionCreate, k, sealed(k))
			return err
		}},
		{"open a key", keys.ActionSign, func(h *keys.Holder, k policy.Key) error {
			_, err := h.OpenKey(keys.ActionSign, k.Owner, chain.P256, vault[k.Owner])
			return err
		}},
		{"sign", keys.ActionSign, func(h *keys.Holder, k policy.Key) error {
			_, err := h.Sign(cached(keys.ActionSign, k), digest)
			return err
		}},
		{"export a key", keys.ActionExport, func(h *keys.Holder, k policy.Key) error {
			_, err := h.ExportKey(cached(keys.ActionExport, k))
			return err
		}},
		{"export a wallet", keys.ActionExport, func(h *keys.Holder, k policy.Key) error {
			_, err := h.ExportMnemonic(k.Owner, sealed(k))
			return err
		}},
	}
	made := []doing{
		{"open a new wallet", keys.ActionCreate, func(h *keys.Holder, _ policy.Key) error {
			entropy, err := keys.GenerateMnemonic(rand.Reader, 12)
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.NewWallet(keys.ActionCreate, entropy, secret.Secret{})
			return err
		}},
		{"make a key", keys.ActionCreate, func(h *keys.Holder, _ policy.Key) error {
			_, err := h.NewPrivateKey(rand.Reader, chain.P256)
			return err
		}},
		{"import a key", keys.ActionImport, func(h *keys.Holder, _ policy.Key) error {
			_, err := h.ImportKey(chain.Ed25519, mustSecret(t, make([]byte, 32)))
			return err
		}},
	}
	for _, no := range []uint64{0, 3} {
		key := policy.Key{Owner: mine, No: no}
		for _, d := range append(stored, made...) {
			grant := key
			if d.name == "open a key" || d.name == "export a wallet" {
				grant.No = 0
			}
			good := func() *keys.Holder {
				h := granted(t, d.action, grant)
				h.Vault = keys.VaultOf(vault)
				return h
			}
			for name, bad := range map[string]func(h *keys.Holder){
				"no grant":                  func(h *keys.Holder) { h.Grant = nil },
				"a zero grant":              func(h *keys.Holder) { h.Grant = new(policy.Grant) },
				"another action's":          func(h *keys.Holder) { h.Grant = granted(t, "DELETE", grant).Grant },
				"another organization's":    func(h *keys.Holder) { h.Organization[0]++ },
				"another activity's":        func(h *keys.Holder) { h.Activity[0]++ },
				"a spent one":               func(h *keys.Holder) { use(t, h, d.action) },
				"another owner's":           func(h *keys.Holder) { h.Grant = granted(t, d.action, policy.Key{Owner: other, No: grant.No}).Grant },
				"another account's":         func(h *keys.Holder) { h.Grant = granted(t, d.action, policy.Key{Owner: mine, No: grant.No + 1}).Grant },
				"one for making keys alone": func(h *keys.Holder) { h.Grant = granted(t, d.action).Grant },
			} {
				h := good()
				bad(h)
				new := strings.HasPrefix(name, "another owner") || strings.HasPrefix(name, "another account") || strings.HasPrefix(name, "one for making")
				isMade := d.name == made[0].name || d.name == made[1].name || d.name == made[2].name
				if err := d.do(h, key); (err == nil) != (new && isMade) {
					t.Errorf("account %d: %s with %s: %v", no, d.name, name, err)
				}
			}
			h := good()
			if err := d.do(h, key); err != nil {
				t.Errorf("account %d: %s: %v", no, d.name, err)
			}
			if err := d.do(h, key); (err == nil) != !(strings.HasPrefix(d.name, "sign") || strings.HasPrefix(d.name, "export")) {
				t.Errorf("account %d: %s twice with one grant: %v", no, d.name, err)
			}
		}
	}
	// A key that was made just now is nobody's yet, and one of another organization is none of ours.
	h := granted(t, keys.ActionCreate)
	fresh, err := h.NewPrivateKey(rand.Reader, chain.Secp256k1)
	if err != nil {
		t.Fatal(err)
	}
	for _, ks := range [][]policy.Key{{{}}, {}, {{Owner: mine}}} {
		if _, err := granted(t, keys.ActionSign, ks...).Sign(fresh, digest); err == nil {
			t.Errorf("a key that is not stored signs with a grant for %v", ks)
		}
		if _, err := granted(t, keys.ActionExport, ks...).ExportKey(fresh); err == nil {
			t.Errorf("a key that is not stored is exported with a grant for %v", ks)
		}
	}
}

// The private bytes of a key are for whoever has just made it, and of no other.
func TestNewSecret(t *testing.T) {
	raw := mustSecret(t, bytes.Repeat([]byte{7}, 32))
	h := granted(t, keys.ActionCreate)
	made, err := h.NewPrivateKey(rand.Reader, chain.Secp256k1)
	if err != nil {
		t.Fatal(err)
	}
	imported, err := granted(t, keys.ActionImport).ImportKey(chain.Ed25519, raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]*keys.PrivateKey{"made": made, "imported": imported} {
		s, err := h.NewSecret(k)
		if err != nil || hex.EncodeToString(secrettest.Bytes(s)) != k.PrivateHex() {
			t.Errorf("%s: %v", name, err)
		}
	}
	mine := [16]byte{1}
	sealed := bytes.Repeat([]byte{7}, 32)
	open := granted(t, keys.ActionExport, policy.Key{Owner: mine})
	open.Vault = keys.VaultOf(shelf{mine: sealed})
	stored, err := open.OpenKey(keys.ActionExport, mine, chain.Secp256k1, sealed)
	if err != nil {
		t.Fatal(err)
	}
	w, err := h.NewWallet(keys.ActionCreate, raw, secret.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := keys.ParsePath("m/0")
	if err != nil {
		t.Fatal(err)
	}
	account, err := w.Derive(chain.Secp256k1, path)
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]*keys.PrivateKey{"stored": stored, "a wallet's": account, "none": nil, "zero": new(keys.PrivateKey)} {
		if _, err := h.NewSecret(k); err == nil {
			t.Errorf("%s: its bytes are given", name)
		}
	}
}

// use spends the holder's grant on a key of its own.
func use(t *testing.T, h *keys.Holder, action string) {
	if err := h.Grant.Spend(policy.Use{Organization: h.Organization, Activity: h.Activity, Action: action}); err != nil {
		t.Fatal(err)
	}
}

// TestGrantOfSeveralKeys signs with several keys at once: with a grant for all of them,
// and not with one that lacks one.
func TestGrantOfSeveralKeys(t *testing.T) {
	a, _ := keys.GeneratePrivateKey(rand.Reader, chain.Ed25519)
	b, _ := keys.GeneratePrivateKey(rand.Reader, chain.Ed25519)
	asked := []keys.KeyDigests{{Key: a, Digests: eddsa([]byte("one"))}, {Key: b, Digests: eddsa([]byte("two"), []byte("three"))}}
	for _, ks := range [][]policy.Key{{a.Key()}, {b.Key()}, {}} {
		if sigs, err := granted(t, keys.ActionSign, ks...).SignEach(asked...); err == nil || sigs != nil {
			t.Errorf("%d signatures with a grant for %d keys", len(sigs), len(ks))
		}
	}
	h := granted(t, keys.ActionSign, b.Key(), a.Key())
	sigs, err := h.SignEach(asked...)
	if err != nil || len(sigs) != 2 || !verify(t, b.Public(), []byte("three"), sigs[1][1]) {
		t.Fatalf("%d signatures, %v", len(sigs), err)
	}
	if sigs, err := h.SignEach(asked[0]); err == nil || sigs != nil {
		t.Error("the grant signs again with one of the keys")
	}
	if sigs, err := granted(t, keys.ActionSign, a.Key()).SignEach(); err == nil || sigs != nil {
		t.Error("nothing is signed")
	}
	for name, k := range map[string]*keys.PrivateKey{"nil": nil, "zero": new(keys.PrivateKey)} {
		if _, err := granted(t, keys.ActionSign, policy.Key{}).Sign(k, eddsa([]byte("m"))...); err == nil {
			t.Errorf("a %s key signed", name)
		}
	}
}

// TestForgingDoesNotCompile builds what would get round a grant, each beside a line
// that does compile.
func TestForgingDoesNotCompile(t *testing.T) {
	for name, c := range map[string]struct{ code, complaint string }{
		"the control":            {`var _ = &keys.Holder{Grant: new(policy.Grant)}`, ""},
		"a grant with members":   {`var _ = policy.Grant{action: "SIGN"}`, "unexported field action"},
		"a member set":           {"func f(g *policy.Grant) { g.keys = nil }", "g.keys undefined"},
		"the constructor":        {"var r policy.Request\nvar _ = r.grant()", "r.grant undefined"},
		"a grant of our own":     {"type forged struct{}\nfunc (forged) Spend(policy.Use) error { return nil }\nfunc (forged) Allows(policy.Use) error { return nil }\nvar _ = keys.Holder{Grant: forged{}}", "cannot use forged"},
		"a grant that embeds":    {"type forged struct{ *policy.Grant }\nvar _ = keys.Holder{Grant: forged{}}", "cannot use forged"},
		"grants compared":        {"var a, b policy.Grant\nvar _ = a == b", "cannot be compared"},
		"secrets compared":       {"var a, b secret.Secret\nvar _ = a == b", "cannot be compared"},
		"a secret's bytes":       {"func f(s secret.Secret) { s.open().b = nil }", "s.open undefined"},
		"a wallet without":       {"var _, _ = keys.openWallet(secret.Secret{}, secret.Secret{})", "undefined"},
		"a key without":          {"var _, _ = keys.privateKeyFromSecret(0, secret.Secret{})", "undefined"},
		"a signature without":    {"func f(k *keys.PrivateKey) { k.sign(0, nil) }", "k.sign undefined"},
		"a stored key's bytes":   {"func f(k *keys.PrivateKey) { k.secret() }", "k.secret undefined"},
		"a key said to be new":   {"func f(k *keys.PrivateKey) { k.made = true }", "k.made undefined"},
		"a vault of keys":        {"func f(v keys.Vault) { v.opener.Open([16]byte{}, nil) }", "v.opener undefined"},
		"a holder's vault":       {"func f(tx *activity.Tx, w *org.Wallet) { tx.Holder().Vault.Open(w.ID, w.Entropy) }", "Open undefined"},
		"an activity's vault":    {"func f(tx *activity.Tx, w *org.Wallet) { tx.Vault.Open(w.ID, w.Entropy) }", "tx.Vault.Open undefined"},
		"what it opens with":     {"func f(tx *activity.Tx, w *org.Wallet) { tx.Vault.sealer.Open(w.ID, w.Entropy) }", "tx.Vault.sealer undefined"},
		"the parent's vault":     {"func f(tx *activity.Tx, k *org.PrivateKey) { tx.TopVault().Open(k.ID, k.Key) }", "Open undefined"},
		"a wallet as a target":   {"func f(tx *activity.Tx, w *org.Wallet) { tx.Vault.OpenImportTarget(w) }", "cannot use w"},
		"a key as a credential":  {"func f(tx *activity.Tx, k *org.PrivateKey) { tx.Vault.OpenClientSecret(k) }", "cannot use k"},
		"a key of another name":  {"func f(k *keys.PrivateKey) { k.identity = nil }", "k.identity undefined"},
		"a key of another name,": {"func f(k *keys.PrivateKey) { k.key.No = 1 }", "k.key undefined"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := compile(t, c.code)
			if c.complaint == "" {
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(out, c.complaint) || strings.Count(out, "forge.go:") != 1 {
				t.Errorf("%v, want one complaint: %s\n%s", err, c.complaint, out)
			}
		})
	}
}

// compile builds a package of the enclave which exists for this alone.
func compile(t *testing.T, code string) (string, error) {
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "forge.go"), filepath.Join(dir, "overlay.json")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	src := `package forge

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

var _ activity.Tx
var _ org.Wallet
var _ keys.Holder
var _ policy.Use
var _ secret.Secret

` + code + "\n"
	o, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "forge", "forge.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string][]byte{file: []byte(src), overlay: o} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "build", "-overlay", overlay, "./forge").CombinedOutput()
	return string(out), err
}
