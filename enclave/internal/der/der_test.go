package der_test

import (
	"bytes"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"cloister/enclave/internal/der"
)

// FuzzParse holds the lenient parser against the strict one of encoding/asn1: what
// that takes with integers in range of 32 bytes, ours takes with the same values;
// and what ours takes says the same after it was written minimally.
func FuzzParse(f *testing.F) {
	f.Add([]byte{0x30, 6, 2, 1, 0, 2, 1, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := der.Parse(b)
		var strict struct{ R, S *big.Int }
		rest, err := asn1.Unmarshal(b, &strict)
		fits := err == nil && len(rest) == 0 && strict.R.Sign() >= 0 && strict.S.Sign() >= 0 && strict.R.BitLen() <= 256 && strict.S.BitLen() <= 256
		// asn1 overlooks members after the two; the minimal form of ours does not have any.
		if fits {
			minimal, err := asn1.Marshal(strict)
			fits = err == nil && bytes.Equal(minimal, b)
		}
		if fits && (!ok || fill(strict.R) != got.R || fill(strict.S) != got.S) {
			t.Fatalf("%x: %x %v", b, got, ok)
		}
		if !ok {
			return
		}
		out := got.Append(nil)
		want, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(got.R[:]), new(big.Int).SetBytes(got.S[:])})
		if err != nil || !bytes.Equal(out, want) || len(out) > len(b) {
			t.Fatalf("%x became %x", b, out)
		}
		if again, ok := der.Parse(out); !ok || again != got {
			t.Fatalf("%x not read back", out)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	good := "3006020101020101"
	for name, text := range map[string]string{
		"empty":             "",
		"cut":               good[:len(good)-2],
		"trailing":          good + "00",
		"trailing inside":   "300802010102010105" + "00",
		"other tag":         "31" + good[2:],
		"long form":         "308106020101020101",
		"indefinite":        "30800201010201010000",
		"length too short":  "3005" + good[4:],
		"length too long":   "3007" + good[4:],
		"integer tag":       "3006030101020101",
		"empty integer":     "30050200020101",
		"negative r":        "3006020181020101",
		"negative s":        "3006020101020181",
		"34 bytes":          "3027" + "0222" + strings.Repeat("00", 33) + "01" + "020101",
		"33 bytes, no zero": "3026" + "0221" + "01" + strings.Repeat("00", 32) + "020101",
		"integer over end":  "3006020901020101",
		"s over end":        "3006020101020201",
		"long form integer": "300702810101020101",
		"one integer":       "3003020101",
		"three integers":    "3009020101020101020101",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, ok := der.Parse(b); ok {
			t.Errorf("%s was read", name)
		}
	}
	for name, text := range map[string]string{
		"minimal":      good,
		"leading zero": "30070202000102" + "0101",
		"33 bytes":     "3026" + "0221" + strings.Repeat("00", 32) + "01" + "020101",
		"32 bytes":     "3025" + "0220" + strings.Repeat("00", 31) + "01" + "020101",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(name, err)
		}
		s, ok := der.Parse(b)
		if one := [32]byte{31: 1}; !ok || s != (der.Signature{R: one, S: one}) {
			t.Errorf("%s: %x %v", name, s, ok)
		}
	}
}

func fill(n *big.Int) (b [32]byte) { n.FillBytes(b[:]); return b }
