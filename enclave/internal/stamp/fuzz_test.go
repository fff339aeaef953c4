package stamp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

// FuzzVerify feeds header values. A value that is accepted must decode with
// encoding/json to the parts that the Caller shows, and every other value is
// refused with a small printable error.
func FuzzVerify(f *testing.F) {
	for _, x := range stampVectors(f) {
		if x.Header == "X-Stamp" {
			f.Add(x.Value, []byte(x.Body))
		}
	}
	f.Add("", []byte{})
	f.Add("e30", []byte("{}"))
	v := stamp.NewVerifier()
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		c, err := v.Verify(xstamp(value), body)
		if err != nil {
			e := fault.Of(err)
			if c != nil || e == nil || e.Code != fault.Unauthenticated || len(e.Message) > 120 || strings.ContainsFunc(e.Message, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%v, %v", c, err)
			}
			return
		}
		text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(value, "="))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]string
		if err := json.Unmarshal(text, &m); err != nil || len(m) != 3 {
			t.Fatalf("%q: %v", text, err)
		}
		key := m["publicKey"] + m["public_key"]
		if !strings.EqualFold(key, c.PublicKey()) || m["scheme"] != c.Scheme().String() || m["signature"] != c.Signature() ||
			!bytes.Equal(c.Body().Bytes(), body) || c.Fingerprint() != sha256.Sum256(body) {
			t.Fatalf("%q: %+v", text, c)
		}
	})
}

// FuzzDER holds the lenient parser against the strict one of encoding/asn1: what
// that takes with integers in range of 32 bytes, ours takes with the same values;
// and what ours takes says the same after it was written minimally.
func FuzzDER(f *testing.F) {
	for _, x := range stampVectors(f) {
		if b, err := hex.DecodeString(x.Decoded.Signature); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte{0x30, 6, 2, 1, 0, 2, 1, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, s, ok := stamp.ParseDER(b)
		var strict struct{ R, S *big.Int }
		rest, err := asn1.Unmarshal(b, &strict)
		fits := err == nil && len(rest) == 0 && strict.R.Sign() >= 0 && strict.S.Sign() >= 0 && strict.R.BitLen() <= 256 && strict.S.BitLen() <= 256
		// asn1 overlooks members after the two; the minimal form of ours does not have any.
		if fits {
			minimal, err := asn1.Marshal(strict)
			fits = err == nil && bytes.Equal(minimal, b)
		}
		if fits && (!ok || fill(strict.R) != r || fill(strict.S) != s) {
			t.Fatalf("%x: %x %x %v", b, r, s, ok)
		}
		if !ok {
			return
		}
		out := stamp.AppendDER(r, s)
		want, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(r[:]), new(big.Int).SetBytes(s[:])})
		if err != nil || !bytes.Equal(out, want) || len(out) > len(b) {
			t.Fatalf("%x became %x", b, out)
		}
		if r2, s2, ok := stamp.ParseDER(out); !ok || r2 != r || s2 != s {
			t.Fatalf("%x not read back", out)
		}
	})
}

func TestDERRefusals(t *testing.T) {
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
		if _, _, ok := stamp.ParseDER(b); ok {
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
		r, s, ok := stamp.ParseDER(b)
		if !ok || r != [32]byte{31: 1} || s != r {
			t.Errorf("%s: %x %x %v", name, r, s, ok)
		}
	}
}
