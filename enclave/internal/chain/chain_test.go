package chain_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/ripemd160" //lint:ignore SA1019 what addresses are made of
	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/addressonly"
	"cloister/enclave/internal/chain/btc"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/chain/tron"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

var curves = []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519}

type vector struct {
	Mnemonic, Curve, Path, Address string
	// Candidates are given where the documents leave open which address it is.
	Candidates map[string]string
	Format     string `json:"address_format"`
	Public     string `json:"public_key_hex"`
}

// chosen are the candidates that the documents recommend.
var chosen = []string{"p2sh_p2wpkh", "p2wsh_p2pk", "non_bounceable_urlsafe", "bech32m_proto"}

// want is the address that the vector's key must have.
func (v *vector) want() string {
	for _, name := range chosen {
		if v.Candidates[name] != "" {
			return v.Candidates[name]
		}
	}
	return v.Address
}

type derivation struct {
	Mnemonics map[string]struct{ Mnemonic, Passphrase string }
	Vectors   []vector
}

func derivations(t testing.TB) (d derivation) {
	t.Helper()
	b, err := os.ReadFile("testdata/derivation.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func vectors(t testing.TB) []vector { return derivations(t).Vectors }

// wallets opens the wallets of the vectors by their mnemonics, as an import does.
func (d *derivation) wallets(t testing.TB) map[string]*keys.Wallet {
	t.Helper()
	out := map[string]*keys.Wallet{}
	for name, m := range d.Mnemonics {
		text, err := secret.From([]byte(m.Mnemonic + "\n" + m.Passphrase))
		if err != nil {
			t.Fatal(err)
		}
		entropy, passphrase, err := keys.ImportMnemonic(text)
		if err != nil {
			t.Fatal(err)
		}
		if out[name], err = importing(t).NewWallet(keys.ActionImport, entropy, passphrase); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// importing holds a grant to import, which is to derive what is new.
func importing(t testing.TB) *keys.Holder {
	t.Helper()
	user := [16]byte{1}
	d, err := policy.Decide(policy.State{RootUsers: [][16]byte{user}, Threshold: 1},
		policy.Request{Action: keys.ActionImport, Approvals: []policy.Approval{{User: user}}})
	if err != nil || d.Grant == nil {
		t.Fatalf("no grant: %v", err)
	}
	return &keys.Holder{Grant: d.Grant}
}

func publicKey(t testing.TB, curve, text string) chain.PublicKey {
	t.Helper()
	c, err := chain.ParseCurve(curve)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := chain.NewPublicKey(c, b)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// chains are all that there are.
var chains = []chain.Addresses{addressonly.Addresses, eth.Addresses, sol.Addresses, btc.Addresses, tron.Addresses}

func all() chain.Addresses { return chain.Join(chains...) }

// refused checks code and beginning of a message.
func refused(t *testing.T, what string, err error, code fault.Code, stem string) {
	t.Helper()
	if e := fault.Of(err); e == nil || e.Code != code || !strings.HasPrefix(e.Message, stem) {
		t.Errorf("%s: %v, want %d %q", what, err, code, stem)
	}
}

// TestAddressVectors goes from mnemonic and path to address, in every format.
func TestAddressVectors(t *testing.T) {
	d := derivations(t)
	wallets, set, formats := d.wallets(t), all(), map[chain.Format]int{}
	for _, v := range d.Vectors {
		f, err := chain.ParseFormat(v.Format)
		if err != nil {
			t.Fatal(err)
		}
		c, err := chain.ParseCurve(v.Curve)
		if err != nil {
			t.Fatal(err)
		}
		path, err := keys.ParsePath(v.Path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := wallets[v.Mnemonic].Derive(c, path)
		if err != nil {
			t.Fatal(err)
		}
		if k.Public() != publicKey(t, v.Curve, v.Public) {
			t.Errorf("%s %s: another key", v.Mnemonic, v.Path)
		}
		got, err := set.Address(f, k.Public())
		if err != nil || got != v.want() || got == "" {
			t.Errorf("%s: %s, want %s (%v)", v.Format, got, v.want(), err)
		}
		formats[f]++
	}
	if len(d.Vectors) != 177 || len(formats) != 38 {
		t.Errorf("%d vectors of %d formats", len(d.Vectors), len(formats))
	}
	t.Logf("%d addresses of %d formats equal", len(d.Vectors), len(formats))
}

// TestPublishedAddresses are of documents of the networks.
func TestPublishedAddresses(t *testing.T) {
	for _, v := range []struct{ source, curve, public, format, want string }{
		{"XRP Ledger, the account of the beginning", "CURVE_SECP256K1", "0330e7fc9d56bb25d6893ba3f317ae5bcf33b3291bd63db32654a313222f7fd020",
			"ADDRESS_FORMAT_XRP", "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh"},
		{"Stellar, SEP-23", "CURVE_ED25519", "3f0c34bf93ad0d9971d04ccc90f705511c838aad9734a4a2fb0d7a03fc7fe89a",
			"ADDRESS_FORMAT_XLM", "GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ"},
		{"Aptos, tests of its SDK", "CURVE_ED25519", "de19e5d1880cac87d57484ce9ed2e84cf0f9599f12e7cc3a52e4e7657a763f2c",
			"ADDRESS_FORMAT_APTOS", "0x978c213990c4833df71548df7ce49d54c759d6b6d932de22b24d56060b7af2aa"},
		{"BIP-84", "CURVE_SECP256K1", "0330d54fd0dd420a6e5f8d3624f5f3482cae350f79d5f0753bf5beef9c2d91af3c",
			"ADDRESS_FORMAT_BITCOIN_MAINNET_P2WPKH", "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"},
		{"BIP-86", "CURVE_SECP256K1", "03cc8a4bc64d897bddc5fbc2f670f7a8ba0b386779106cf1223c6fc5d7cd6fc115",
			"ADDRESS_FORMAT_BITCOIN_MAINNET_P2TR", "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr"},
		{"BIP-49", "CURVE_SECP256K1", "03a1af804ac108a8a51782198c2d034b28bf90c8803f5a53f76276fa69a4eae77f",
			"ADDRESS_FORMAT_BITCOIN_TESTNET_P2SH", "2Mww8dCYPUpKHofjgcXcBCEGmniw9CoaiD2"},
		{"BIP-173", "CURVE_SECP256K1", "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
			"ADDRESS_FORMAT_BITCOIN_TESTNET_P2WPKH", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"},
	} {
		f, err := chain.ParseFormat(v.format)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := all().Address(f, publicKey(t, v.curve, v.public)); err != nil || got != v.want {
			t.Errorf("%s: %s, %v", v.source, got, err)
		}
	}
}

func TestNamesOfFormats(t *testing.T) {
	n := 0
	for f := chain.Format(1); len(chain.CurvesFor(f)) > 0; f++ {
		got, err := chain.ParseFormat(f.String())
		if err != nil || got != f {
			t.Errorf("%v reads as %v, %v", f, got, err)
		}
		n++
	}
	if n != 38 {
		t.Errorf("%d formats, the interface has 38", n)
	}
	for _, bad := range []string{"", "ADDRESS_FORMAT_", "ETHEREUM", "ADDRESS_FORMAT_ethereum", "ADDRESS_FORMAT_ETHEREUM ", "ADDRESS_FORMAT_BITCOIN", "ADDRESS_FORMAT_UNSPECIFIED", chain.Format(0).String(), chain.Format(200).String()} {
		f, err := chain.ParseFormat(bad)
		refused(t, bad, err, fault.InvalidArgument, "invalid address format")
		if f != 0 {
			t.Errorf("%q gave %v", bad, f)
		}
	}
	for _, c := range curves {
		if got, err := chain.ParseCurve(c.String()); err != nil || got != c {
			t.Errorf("%v reads as %v, %v", c, got, err)
		}
	}
	for _, bad := range []string{"", "CURVE_", "SECP256K1", "curve_p256", "CURVE_TYPE_ED25519", "CURVE_P384", chain.Curve(0).String()} {
		c, err := chain.ParseCurve(bad)
		refused(t, bad, err, fault.InvalidArgument, "invalid curve")
		if c != 0 {
			t.Errorf("%q gave %v", bad, c)
		}
	}
}

// TestPairs tries every format with a key on every curve, of the set and of each
// chain by itself: what the table does not list is refused.
func TestPairs(t *testing.T) {
	keys := map[chain.Curve]chain.PublicKey{0: {}}
	for _, v := range vectors(t) {
		p := publicKey(t, v.Curve, v.Public)
		keys[p.Curve()] = p
	}
	set := all()
	taken, refusals := 0, 0
	for f := chain.Format(0); f < 45; f++ {
		for c, p := range keys {
			_, err := set.Address(f, p)
			switch {
			case len(chain.CurvesFor(f)) == 0:
				refused(t, f.String(), err, fault.InvalidArgument, "invalid address format")
				refusals++
			case !slices.Contains(chain.CurvesFor(f), c):
				refused(t, f.String(), err, fault.InvalidArgument, "invalid curve")
				refusals++
			case (set[f] != nil) != (err == nil):
				t.Errorf("%v with %v: %v", f, c, err)
			case err == nil:
				taken++
			}
			for _, one := range chains {
				text, err := one.Address(f, p)
				ok := one[f] != nil && slices.Contains(chain.CurvesFor(f), c)
				if ok != (err == nil) || ok != (text != "") || err != nil && fault.Of(err) == nil {
					t.Errorf("%d, %v with %v: %q, %v", len(one), f, c, text, err)
				}
			}
		}
	}
	if taken != 41 || refusals == 0 {
		t.Errorf("%d pairs taken", taken)
	}
	t.Logf("%d pairs taken, %d refused", taken, refusals)
}

func TestCurvesForIsACopy(t *testing.T) {
	chain.CurvesFor(chain.Ethereum)[0] = chain.Ed25519
	if chain.CurvesFor(chain.Ethereum)[0] != chain.Secp256k1 {
		t.Error("a caller can change the table")
	}
}

func TestJoinRefusesTwins(t *testing.T) {
	for name, chains := range map[string][]chain.Addresses{"twice": {eth.Addresses, eth.Addresses}, "unknown": {{0: eth.Addresses[chain.Ethereum]}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			chain.Join(chains...)
		}()
	}
}

func TestPublicKeyForms(t *testing.T) {
	for _, v := range vectors(t) {
		p := publicKey(t, v.Curve, v.Public)
		if hex.EncodeToString(p.Compressed()) != v.Public {
			t.Errorf("%s: compressed differs", v.Public)
		}
		again, err := chain.NewPublicKey(p.Curve(), p.Bytes())
		if err != nil || again != p {
			t.Errorf("%s: the long form reads differently", v.Public)
		}
		b := p.Bytes()
		b[5] ^= 1
		if !bytes.Equal(p.Bytes(), again.Bytes()) {
			t.Error("a caller can change the key")
		}
		if p.Curve() != chain.Ed25519 {
			badPoints(t, p)
		}
	}
	for n := range 70 {
		for _, c := range append(curves, 0, 4) {
			if _, err := chain.NewPublicKey(c, make([]byte, n)); (err == nil) != (c == chain.Ed25519 && n == 32) {
				t.Errorf("%v with %d zero bytes: %v", c, n, err)
			}
		}
	}
	var zero chain.PublicKey
	if zero.Bytes() != nil || zero.Compressed() != nil || zero.Curve() != 0 {
		t.Error("the zero key has bytes")
	}
}

// badPoints tries forms of a good point that are none.
func badPoints(t *testing.T, p chain.PublicKey) {
	t.Helper()
	for _, prefix := range []byte{0, 1, 2, 3, 5, 6, 7, 0xff} {
		b := p.Bytes()
		b[0] = prefix
		if _, err := chain.NewPublicKey(p.Curve(), b); err != chain.ErrPublicKey {
			t.Errorf("%v: 65 bytes with prefix %d: %v", p.Curve(), prefix, err)
		}
	}
	for _, prefix := range []byte{0, 1, 4, 5, 6} {
		b := p.Compressed()
		b[0] = prefix
		if _, err := chain.NewPublicKey(p.Curve(), b); err != chain.ErrPublicKey {
			t.Errorf("%v: 33 bytes with prefix %d: %v", p.Curve(), prefix, err)
		}
	}
	for _, i := range []int{1, 32, 33, 64} {
		b := p.Bytes()
		b[i] ^= 1
		if _, err := chain.NewPublicKey(p.Curve(), b); err != chain.ErrPublicKey {
			t.Errorf("%v: a point off the curve was taken", p.Curve())
		}
	}
	over := bytes.Repeat([]byte{0xff}, 33)
	over[0] = 2
	if _, err := chain.NewPublicKey(p.Curve(), over); err != chain.ErrPublicKey {
		t.Errorf("%v: an x above the field was taken", p.Curve())
	}
	other := chain.Secp256k1 + chain.P256 - p.Curve()
	if _, err := chain.NewPublicKey(other, p.Bytes()); err != chain.ErrPublicKey {
		t.Errorf("a point of %v was taken for %v", p.Curve(), other)
	}
}

func TestMatchKey(t *testing.T) {
	const ethereum = "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25"
	const sui = "0x2695f469826971eadfea28e0f8719137482502c44140aead682d41231d60ba92"
	for _, a := range []string{ethereum, sui} {
		for _, same := range []string{strings.ToLower(a), "0x" + strings.ToUpper(a[2:])} {
			if chain.MatchKey(same) != chain.MatchKey(a) {
				t.Errorf("%s does not match", same)
			}
		}
		for _, exact := range []string{a[2:], "0X" + a[2:], a + "0", a[:len(a)-1], a[:len(a)-1] + "g", a[:len(a)-1] + "é", "0xG" + a[3:]} {
			if chain.MatchKey(exact) != exact {
				t.Errorf("%q became %q", exact, chain.MatchKey(exact))
			}
		}
	}
	for _, exact := range []string{"", "0x", "0x" + strings.Repeat("Ab", 31), "0x" + strings.Repeat("Ab", 33), "05FF74CB-bf52-45c6-a81e-8d82099d7f78"} {
		if chain.MatchKey(exact) != exact {
			t.Errorf("%q became %q", exact, chain.MatchKey(exact))
		}
	}
	for _, public := range []string{"02" + strings.Repeat("Ab", 32), "04" + strings.Repeat("Ab", 64)} {
		if chain.MatchKey(public) != strings.ToLower(public) || chain.MatchKey(strings.ToUpper(public)) != strings.ToLower(public) {
			t.Errorf("%q became %q", public, chain.MatchKey(public))
		}
		for _, exact := range []string{"0x" + public, public + "0", public[1:], public[:len(public)-1] + "G"} {
			if chain.MatchKey(exact) != exact {
				t.Errorf("%q became %q", exact, chain.MatchKey(exact))
			}
		}
	}
	keys := map[string]string{}
	for _, v := range vectors(t) {
		a := v.want()
		if other, ok := keys[chain.MatchKey(a)]; ok && other != a {
			t.Errorf("%s and %s match", a, other)
		}
		keys[chain.MatchKey(a)] = a
		if v.Format != "ADDRESS_FORMAT_ETHEREUM" && chain.MatchKey(a) != a {
			t.Errorf("%s became %s", a, chain.MatchKey(a))
		}
	}
}

// eitherCase is an address of Ethereum, one of Sui or Aptos, or a public key.
var eitherCase = regexp.MustCompile(`^(0x([0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})|[0-9A-Fa-f]{66}|[0-9A-Fa-f]{130})$`)

func FuzzMatchKey(f *testing.F) {
	f.Add("0x58A57ed9d8d624cBD12e2C467D34787555bB1b25")
	f.Add("0x2695f469826971eadfea28e0f8719137482502c44140aead682d41231d60ba92")
	f.Add("BLeUXTx9thHGT7VJUtF9vHEmfMDgW1nnKZ9UVer2CoLX")
	f.Add("02A1633CAFCC01EBFB6D78E39F687A1F0995C62FC95F51EAD10A02EE0BE551B5DC")
	f.Fuzz(func(t *testing.T, s string) {
		k := chain.MatchKey(s)
		if chain.MatchKey(k) != k || !strings.EqualFold(k, s) || len(k) != len(s) {
			t.Errorf("%q became %q", s, k)
		}
		if k != s && !eitherCase.MatchString(s) {
			t.Errorf("%q became %q", s, k)
		}
	})
}

func FuzzNewPublicKey(f *testing.F) {
	for _, v := range vectors(f)[:8] {
		p := publicKey(f, v.Curve, v.Public)
		f.Add(uint8(p.Curve()), p.Bytes())
		f.Add(uint8(p.Curve()), p.Compressed())
	}
	f.Fuzz(func(t *testing.T, c uint8, b []byte) {
		p, err := chain.NewPublicKey(chain.Curve(c), b)
		if err != nil {
			if p != (chain.PublicKey{}) {
				t.Error("an error with a key")
			}
			return
		}
		if !bytes.Equal(b, p.Bytes()) && !bytes.Equal(b, p.Compressed()) {
			t.Errorf("%x became %x", b, p.Bytes())
		}
		again, err := chain.NewPublicKey(p.Curve(), p.Compressed())
		if err != nil || again != p {
			t.Errorf("%x does not come back", b)
		}
	})
}

// BenchmarkAddress makes an address in each format, and below it hashes and
// curves do alone what most of the work is.
func BenchmarkAddress(b *testing.B) {
	set, seen := all(), map[string]bool{}
	for _, v := range vectors(b) {
		name := v.Format + "/" + v.Curve
		if seen[name] {
			continue
		}
		seen[name] = true
		f, err := chain.ParseFormat(v.Format)
		if err != nil {
			b.Fatal(err)
		}
		p := publicKey(b, v.Curve, v.Public)
		b.Run(strings.TrimPrefix(name, "ADDRESS_FORMAT_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Address(f, p)
			}
		})
	}
	key := make([]byte, 33)
	var tweak secp256k1.ModNScalar
	tweak.SetByteSlice(sha3.NewLegacyKeccak256().Sum(nil))
	for name, f := range map[string]func(){
		"keccak-256":                   func() { sha3.NewLegacyKeccak256().Sum(key) },
		"sha-256, ripemd-160":          func() { sha256.Sum256(key); ripemd160.New().Sum(key) },
		"sha-256 twice":                func() { sha256.Sum256(key); sha256.Sum256(key) },
		"blake2b-256":                  func() { blake2b.Sum256(key) },
		"sha3-256":                     func() { sha3.Sum256(key) },
		"secp256k1 times a base point": func() { secp256k1.ScalarBaseMultNonConst(&tweak, new(secp256k1.JacobianPoint)) },
	} {
		b.Run("alone/"+name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
