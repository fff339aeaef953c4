package keys_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
	"github.com/tyler-smith/go-bip39"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

type derivations struct {
	Mnemonics map[string]struct {
		Mnemonic, Passphrase string
		Seed                 string `json:"seed_hex"`
		Entropy              string `json:"entropy_hex"`
	}
	Vectors []struct {
		Mnemonic, Curve, Path, Address string
		Format                         string `json:"address_format"`
		Private                        string `json:"private_key_hex"`
		Public                         string `json:"public_key_hex"`
	}
}

func openAll(t testing.TB, d *derivations) map[string]*keys.Wallet {
	t.Helper()
	wallets := make(map[string]*keys.Wallet)
	for name, m := range d.Mnemonics {
		var pass secret.Secret
		if m.Passphrase != "" {
			pass = mustSecret(t, []byte(m.Passphrase))
		}
		w, err := keys.OpenWallet(mustSecret(t, unhex(t, m.Entropy)), pass)
		if err != nil {
			t.Fatal(err)
		}
		if w.SeedHex() != m.Seed {
			t.Errorf("%s: seed differs", name)
		}
		if keys.Mnemonic(unhex(t, m.Entropy)) != m.Mnemonic {
			t.Errorf("%s: mnemonic differs", name)
		}
		wallets[name] = w
	}
	return wallets
}

// TestDerivationVectors runs every row whose key is a plain derivation; the
// addresses are held against the same file in package chain.
func TestDerivationVectors(t *testing.T) {
	var d derivations
	load(t, "../chain/testdata/derivation.json", &d)
	wallets := openAll(t, &d)
	count := map[string]int{}
	for _, v := range d.Vectors {
		c, err := chain.ParseCurve(v.Curve)
		if err != nil {
			t.Fatal(err)
		}
		p, err := keys.ParsePath(v.Path)
		if err != nil {
			t.Fatalf("%s: %v", v.Path, err)
		}
		if p.String() != v.Path {
			t.Errorf("path %s became %s", v.Path, p)
		}
		k, err := wallets[v.Mnemonic].Derive(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if k.PrivateHex() != v.Private {
			t.Errorf("%s %s %s: private key differs", v.Mnemonic, v.Curve, v.Path)
		}
		if got := hex.EncodeToString(k.Public().Compressed()); got != v.Public {
			t.Errorf("%s %s %s: public key %s, want %s", v.Mnemonic, v.Curve, v.Path, got, v.Public)
		}
		s := mustSecret(t, unhex(t, v.Private))
		again, err := keys.PrivateKeyFromSecret(c, s)
		if err != nil || again.Public() != k.Public() {
			t.Errorf("%s %s: the stored key gives another public key", v.Curve, v.Path)
		}
		count[v.Format]++
	}
	if len(count) != 38 || len(d.Vectors) != 177 {
		t.Errorf("%d rows of %d formats", len(d.Vectors), len(count))
	}
}

// checkExtended compares a node with a serialized extended private key.
func checkExtended(t *testing.T, seed, path, xprv string) {
	t.Helper()
	b, err := base58.Decode(xprv)
	if err != nil || len(b) != 82 {
		t.Fatalf("vector %s is no extended key", path)
	}
	key, code, ok := keys.DeriveFromSeed(unhex(t, seed), chain.Secp256k1, path)
	if !ok || !bytes.Equal(code, b[13:45]) || !bytes.Equal(key, b[46:78]) {
		t.Errorf("%s: differs from the standard", path)
	}
}

func TestBIP32Vectors(t *testing.T) {
	n := 0
	for seed, rows := range bip32Vectors {
		for _, row := range strings.Split(strings.TrimSpace(rows), "\n") {
			path, xprv, _ := strings.Cut(strings.TrimSpace(row), " ")
			checkExtended(t, seed, path, xprv)
			n++
		}
	}
	t.Logf("%d nodes", n)
}

func TestSLIP10Vectors(t *testing.T) {
	n := 0
	for _, v := range slip10Vectors {
		c := v.curve
		for _, row := range strings.Split(strings.TrimSpace(v.rows), "\n") {
			f := strings.Fields(row)
			key, code, ok := keys.DeriveFromSeed(unhex(t, v.seed), c, f[0])
			if !ok || hex.EncodeToString(code) != f[1] || hex.EncodeToString(key) != f[2] {
				t.Errorf("%v %s: differs from the standard", c, f[0])
			}
			n++
		}
	}
	t.Logf("%d nodes, one path and one seed with a retry among them", n)
}

func TestSoftStepOfEd25519IsHard(t *testing.T) {
	seed := bytes.Repeat([]byte{3}, 64)
	a, ac, _ := keys.DeriveFromSeed(seed, chain.Ed25519, "m/44'/501'/0'/0")
	b, bc, _ := keys.DeriveFromSeed(seed, chain.Ed25519, "m/44'/501'/0'/0'")
	if !bytes.Equal(a, b) || !bytes.Equal(ac, bc) {
		t.Error("differ")
	}
	a, _, _ = keys.DeriveFromSeed(seed, chain.Secp256k1, "m/0")
	b, _, _ = keys.DeriveFromSeed(seed, chain.Secp256k1, "m/0'")
	if bytes.Equal(a, b) {
		t.Error("secp256k1 steps do not differ")
	}
}

func TestBIP39(t *testing.T) {
	for _, v := range bip39Vectors {
		if got := keys.Mnemonic(unhex(t, v.entropy)); got != v.words {
			t.Errorf("%s: %s", v.entropy, got)
		}
		w, err := keys.OpenWallet(mustSecret(t, unhex(t, v.entropy)), mustSecret(t, []byte("TREZOR")))
		if err != nil || w.SeedHex() != v.seed {
			t.Errorf("%s: seed differs", v.entropy)
		}
		entropy, _, err := keys.ImportMnemonic(mustSecret(t, []byte(v.words)))
		if err != nil || hex.EncodeToString(secrettest.Bytes(entropy)) != v.entropy {
			t.Errorf("%s: read otherwise, %v", v.words, err)
		}
	}
	n := 0
	for _, words := range []int{12, 15, 18, 21, 24} {
		for range 40 {
			s, err := keys.GenerateMnemonic(rand.Reader, words)
			if err != nil {
				t.Fatal(err)
			}
			entropy := secrettest.Bytes(s)
			want, err := bip39.NewMnemonic(entropy)
			if err != nil {
				t.Fatal(err)
			}
			if got := keys.Mnemonic(entropy); got != want || len(strings.Fields(got)) != words {
				t.Errorf("%d words: differs from the library", words)
			}
			n++
		}
		s, _ := keys.GenerateMnemonic(rand.Reader, words)
		w, err := keys.OpenWallet(s, secret.Secret{})
		if err != nil || w.SeedHex() != hex.EncodeToString(bip39.NewSeed(keys.Mnemonic(secrettest.Bytes(s)), "")) {
			t.Errorf("%d words: seed differs from the library", words)
		}
	}
	lengths := map[int]int{}
	for _, v := range bip39Vectors {
		lengths[len(strings.Fields(v.words))]++
	}
	if len(lengths) != 5 || len(bip39Vectors) != 24+8 {
		t.Errorf("vectors of %v words", lengths)
	}
	t.Logf("vectors of %v words, %d random mnemonics", lengths, n)
}

func TestWalletRefuses(t *testing.T) {
	for _, words := range []int{-12, 0, 1, 3, 9, 11, 13, 14, 16, 23, 25, 27, 1 << 40} {
		if _, err := keys.GenerateMnemonic(rand.Reader, words); fault.Of(err) == nil || fault.Of(err).Code != fault.InvalidArgument {
			t.Errorf("%d words: %v", words, err)
		}
	}
	for _, n := range []int{1, 12, 15, 17, 18, 31, 33, 36, 64} {
		if _, err := keys.OpenWallet(mustSecret(t, make([]byte, n)), secret.Secret{}); err == nil {
			t.Errorf("%d bytes of entropy were taken", n)
		}
	}
	good := mustSecret(t, make([]byte, 16))
	if _, err := keys.OpenWallet(good, mustSecret(t, make([]byte, keys.MaxPassphrase+1))); err == nil {
		t.Error("a passphrase too long was taken")
	}
	w, err := keys.OpenWallet(good, secret.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := keys.ParsePath("m/0'")
	for _, c := range []chain.Curve{0, 4, 255} {
		if _, err := w.Derive(c, p); fault.Of(err) == nil || !strings.HasPrefix(err.Error(), "invalid curve") {
			t.Errorf("curve %d: %v", c, err)
		}
	}
	if _, err := w.Derive(chain.Ed25519, keys.Path{}); fault.Of(err) == nil || err.Error() != "invalid path" {
		t.Errorf("the zero path: %v", err)
	}
	w.Wipe()
	if _, err := w.Derive(chain.Ed25519, p); err == nil {
		t.Error("a wiped wallet derived")
	}
}

// TestP256Sum holds the constant-time sum against math/big, edges included.
func TestP256Sum(t *testing.T) {
	order, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	edge := func(d int64) (b [32]byte) { new(big.Int).Add(order, big.NewInt(d)).FillBytes(b[:]); return b }
	small := func(d byte) (b [32]byte) { b[31] = d; return b }
	values := [][32]byte{small(1), small(2), edge(-1), edge(-2), edge(0), edge(1), {}, {0: 0x80}}
	for i := range values[7] {
		values[7][i] = 0xff
	}
	for range 30 {
		var b [32]byte
		rand.Read(b[:])
		values = append(values, b)
	}
	taken, refused := 0, 0
	for _, a := range values {
		x := new(big.Int).SetBytes(a[:])
		if x.Cmp(order) >= 0 {
			continue // a key is always below the order
		}
		for _, b := range values {
			y := new(big.Int).SetBytes(b[:])
			want := new(big.Int).Add(x, y)
			want.Mod(want, order)
			got := a
			ok := keys.AddP256(&got, &b)
			if ok != (y.Cmp(order) < 0 && want.Sign() != 0) {
				t.Fatalf("%x + %x: %v", a, b, ok)
			}
			if !ok {
				refused++
				if got != a {
					t.Fatal("a refused sum changed the key")
				}
				continue
			}
			taken++
			if new(big.Int).SetBytes(got[:]).Cmp(want) != 0 {
				t.Fatalf("%x + %x: wrong", a, b)
			}
		}
	}
	if taken < 500 || refused < 50 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
}

func TestPrivateKeyRefuses(t *testing.T) {
	orders := map[chain.Curve]string{
		chain.Secp256k1: "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
		chain.P256:      "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"}
	for c, order := range orders {
		n, _ := new(big.Int).SetString(order, 16)
		for d, want := range map[int64]bool{-1: true, 0: false, 1: false} {
			b := new(big.Int).Add(n, big.NewInt(d)).FillBytes(make([]byte, 32))
			if _, err := keys.PrivateKeyFromSecret(c, mustSecret(t, b)); (err == nil) != want {
				t.Errorf("%v order%+d: %v", c, d, err)
			}
		}
		for _, b := range [][]byte{make([]byte, 32), bytes.Repeat([]byte{255}, 32)} {
			if _, err := keys.PrivateKeyFromSecret(c, mustSecret(t, b)); err == nil {
				t.Errorf("%v: %x was taken", c, b)
			}
			if _, err := keys.GeneratePrivateKey(bytes.NewReader(bytes.Repeat(b, 9)), c); err == nil {
				t.Errorf("%v: broken randomness gave a key", c)
			}
		}
	}
	for _, c := range []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519} {
		for _, n := range []int{1, 31, 33, 64} {
			if _, err := keys.PrivateKeyFromSecret(c, mustSecret(t, bytes.Repeat([]byte{1}, n))); err == nil {
				t.Errorf("%v: %d bytes were taken", c, n)
			}
		}
	}
	if _, err := keys.GeneratePrivateKey(rand.Reader, 0); fault.Of(err) == nil {
		t.Error("a key on no curve")
	}
	if _, err := keys.PrivateKeyFromSecret(9, mustSecret(t, make([]byte, 32))); fault.Of(err) == nil {
		t.Error("a key on no curve")
	}
}
