package chain_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/plain"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
)

var curves = []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519}

type vector struct {
	Curve, Address string
	Format         string `json:"address_format"`
	Public         string `json:"public_key_hex"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/derivation.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Vectors []vector }
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d.Vectors
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

func all() *chain.Set { return chain.NewSet(plain.Chain{}, eth.Chain{}, sol.Chain{}) }

// refused checks code and beginning of a message.
func refused(t *testing.T, what string, err error, code fault.Code, stem string) {
	t.Helper()
	if e := fault.Of(err); e == nil || e.Code != code || !strings.HasPrefix(e.Message, stem) {
		t.Errorf("%s: %v, want %d %q", what, err, code, stem)
	}
}

func TestAddressVectors(t *testing.T) {
	set, equal, later := all(), 0, map[string]bool{}
	for _, v := range vectors(t) {
		f, err := chain.ParseFormat(v.Format)
		if err != nil {
			t.Fatal(err)
		}
		got, err := set.Address(f, publicKey(t, v.Curve, v.Public))
		if !set.Has(f) {
			refused(t, v.Format, err, fault.Unimplemented, "UNIMPLEMENTED: "+v.Format)
			later[v.Format] = true
			continue
		}
		if err != nil || got != v.Address {
			t.Errorf("%s: %s, want %s (%v)", v.Format, got, v.Address, err)
		}
		equal++
	}
	if equal != 30 || len(later) != 34 {
		t.Errorf("%d addresses equal, %d formats of later", equal, len(later))
	}
	t.Logf("%d addresses equal; %d formats answer UNIMPLEMENTED", equal, len(later))
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
			case set.Has(f) != (err == nil):
				t.Errorf("%v with %v: %v", f, c, err)
			case err == nil:
				taken++
			}
			for _, one := range []chain.Chain{plain.Chain{}, eth.Chain{}, sol.Chain{}} {
				text, err := one.Address(f, p)
				ok := slices.Contains(one.Formats(), f) && slices.Contains(chain.CurvesFor(f), c)
				if ok != (err == nil) || ok != (text != "") || err != nil && fault.Of(err) == nil {
					t.Errorf("%T, %v with %v: %q, %v", one, f, c, text, err)
				}
			}
		}
	}
	if taken != 7 || refusals == 0 {
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

func TestSetRefusesTwins(t *testing.T) {
	for name, chains := range map[string][]chain.Chain{"twice": {eth.Chain{}, eth.Chain{}}, "unknown": {stray{}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			chain.NewSet(chains...)
		}()
	}
}

type stray struct{ eth.Chain }

func (stray) Formats() []chain.Format { return []chain.Format{0} }

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
	const a = "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25"
	for _, same := range []string{strings.ToLower(a), "0x" + strings.ToUpper(a[2:])} {
		if chain.MatchKey(same) != chain.MatchKey(a) {
			t.Errorf("%s does not match", same)
		}
	}
	for _, exact := range []string{"", "0x", a[2:], "0X" + a[2:], a + "0", a[:41], a[:41] + "g", a[:41] + "é", "00" + a[2:],
		"BLeUXTx9thHGT7VJUtF9vHEmfMDgW1nnKZ9UVer2CoLX", "031CA6aa", "0x" + strings.Repeat("Ab", 32), "0xG" + a[3:], "05FF74CB-bf52-45c6-a81e-8d82099d7f78"} {
		if chain.MatchKey(exact) != exact {
			t.Errorf("%q became %q", exact, chain.MatchKey(exact))
		}
	}
}

func FuzzMatchKey(f *testing.F) {
	f.Add("0x58A57ed9d8d624cBD12e2C467D34787555bB1b25")
	f.Add("BLeUXTx9thHGT7VJUtF9vHEmfMDgW1nnKZ9UVer2CoLX")
	f.Fuzz(func(t *testing.T, s string) {
		k := chain.MatchKey(s)
		if chain.MatchKey(k) != k || !strings.EqualFold(k, s) || len(k) != len(s) {
			t.Errorf("%q became %q", s, k)
		}
		if k != s && (len(s) != 42 || s[:2] != "0x") {
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

func BenchmarkAddress(b *testing.B) {
	set := all()
	for _, v := range vectors(b)[:14] {
		f, _ := chain.ParseFormat(v.Format)
		if !set.Has(f) {
			continue
		}
		p := publicKey(b, v.Curve, v.Public)
		b.Run(v.Format+"/"+v.Curve, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Address(f, p)
			}
		})
	}
}
