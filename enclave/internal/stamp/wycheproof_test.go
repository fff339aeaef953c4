package stamp_test

import (
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/stamp"
)

type wycheproof struct {
	NumberOfTests int
	TestGroups    []struct {
		PublicKey struct{ Uncompressed, Pk string }
		Tests     []struct {
			TcID             int
			Msg, Sig, Result string
			Flags            []string
		}
	}
}

// A signature that Wycheproof calls invalid may be one of ours for two reasons
// only: its encoding is not DER but says one pair of numbers (encodingFlags), or it
// is in the Bitcoin file, which demands a low s, and its s is high. Either way it
// has to be mathematically valid for exactly that pair, which textbook finds out
// by itself. None of the encodings in these files is of the kind we tolerate.
var encodingFlags = []string{"BerEncodedSignature", "InvalidEncoding", "MissingZero"}

func TestWycheproofECDSA(t *testing.T) {
	for _, f := range []struct {
		file, scheme string
		curve        elliptic.Curve
		lowS         bool // the file demands a low s
		more         int  // accepted although called invalid
	}{
		{"ecdsa_secp256r1_sha256_test.json", "SIGNATURE_SCHEME_TK_API_P256", elliptic.P256(), false, 0},
		//lint:ignore SA1019 the generic curve is an independent oracle here, never in the product
		{"ecdsa_secp256k1_sha256_test.json", "SIGNATURE_SCHEME_TK_API_SECP256K1", secp256k1.S256(), false, 0},
		//lint:ignore SA1019 as above
		{"ecdsa_secp256k1_sha256_bitcoin_test.json", "SIGNATURE_SCHEME_TK_API_SECP256K1", secp256k1.S256(), true, 2},
	} {
		var w wycheproof
		load(t, f.file, &w)
		v := stamp.NewVerifier()
		valid, invalid, n := 0, 0, 0
		byFlag := map[string]int{}
		for _, g := range w.TestGroups {
			key := compressed(t, g.PublicKey.Uncompressed)
			for _, c := range g.Tests {
				msg, err := hex.DecodeString(c.Msg)
				if err != nil {
					t.Fatal(err)
				}
				n++
				got := accepted(v, header(parts{key, f.scheme, c.Sig}), string(msg))
				switch {
				case c.Result == "valid" && got:
					valid++
				case c.Result == "invalid" && !got:
					invalid++
				case c.Result == "invalid" && got:
					ok, high := textbook(t, f.curve, g.PublicKey.Uncompressed, msg, c.Sig)
					encoding := slices.ContainsFunc(c.Flags, func(s string) bool { return slices.Contains(encodingFlags, s) })
					if !ok || !encoding && !(f.lowS && high) {
						t.Errorf("%s: case %d %v was accepted", f.file, c.TcID, c.Flags)
					}
					byFlag[fmt.Sprint(c.Flags)]++
				default:
					t.Errorf("%s: case %d %v: %s, accepted %v", f.file, c.TcID, c.Flags, c.Result, got)
				}
			}
		}
		more := 0
		for _, k := range byFlag {
			more += k
		}
		if n != w.NumberOfTests || more != f.more {
			t.Errorf("%s: %d of %d cases, %v", f.file, n, w.NumberOfTests, byFlag)
		}
		t.Logf("%s: %d valid accepted, %d invalid refused, accepted although called invalid: %v", f.file, valid, invalid, byFlag)
	}
}

// textbook decides by textbook arithmetic whether sig, read as two integers whose
// bytes follow 02 and a length, is valid, and whether its s is in the upper half.
func textbook(t *testing.T, curve elliptic.Curve, key string, msg []byte, sig string) (ok, high bool) {
	b, err := hex.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	rest, integers := b[2:], [2]*big.Int{}
	for i := range integers {
		if len(rest) < 2 || rest[0] != 2 || int(rest[1]) > len(rest)-2 || rest[2]&0x80 != 0 {
			return false, false
		}
		integers[i] = new(big.Int).SetBytes(rest[2 : 2+rest[1]])
		rest = rest[2+rest[1]:]
	}
	r, s, n := integers[0], integers[1], curve.Params().N
	if len(rest) != 0 || r.Sign() == 0 || s.Sign() == 0 || r.Cmp(n) >= 0 || s.Cmp(n) >= 0 {
		return false, false
	}
	point, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(msg)
	w := new(big.Int).ModInverse(s, n)
	u1 := new(big.Int).Mul(new(big.Int).SetBytes(digest[:]), w)
	u2 := new(big.Int).Mul(r, w)
	//lint:ignore SA1019 the textbook formula judges what the product's verifier accepts
	x1, y1 := curve.ScalarBaseMult(u1.Mod(u1, n).Bytes())
	//lint:ignore SA1019 as above
	x2, y2 := curve.ScalarMult(new(big.Int).SetBytes(point[1:33]), new(big.Int).SetBytes(point[33:]), u2.Mod(u2, n).Bytes())
	//lint:ignore SA1019 as above
	x, _ := curve.Add(x1, y1, x2, y2)
	return x.Mod(x, n).Cmp(r) == 0, new(big.Int).Lsh(s, 1).Cmp(n) > 0
}

func TestWycheproofEd25519(t *testing.T) {
	var w wycheproof
	load(t, "ed25519_test.json", &w)
	v := stamp.NewVerifier()
	valid, invalid := 0, 0
	for _, g := range w.TestGroups {
		for _, c := range g.Tests {
			msg, err := hex.DecodeString(c.Msg)
			if err != nil {
				t.Fatal(err)
			}
			got := accepted(v, header(parts{g.PublicKey.Pk, "SIGNATURE_SCHEME_TK_API_ED25519", c.Sig}), string(msg))
			switch {
			case got != (c.Result == "valid"):
				t.Errorf("case %d %v: %s, accepted %v", c.TcID, c.Flags, c.Result, got)
			case got:
				valid++
			default:
				invalid++
			}
		}
	}
	if valid+invalid != w.NumberOfTests {
		t.Errorf("%d of %d cases", valid+invalid, w.NumberOfTests)
	}
	t.Logf("ed25519_test.json: %d valid accepted, %d invalid refused", valid, invalid)
}

// TestCCTVEd25519 holds the rule of the package doc: no cofactor, so a residue of
// low order refuses; R compared as bytes, so a non-canonical R refuses; all
// other peculiarities of points are let through.
func TestCCTVEd25519(t *testing.T) {
	var vectors []struct {
		Number        int
		Key, Sig, Msg string
		Flags         []string
	}
	load(t, "ed25519vectors.json", &vectors)
	v := stamp.NewVerifier()
	taken, refused := 0, 0
	for _, x := range vectors {
		want := !slices.Contains(x.Flags, "low_order_residue") && !slices.Contains(x.Flags, "non_canonical_R")
		got := accepted(v, header(parts{x.Key, "SIGNATURE_SCHEME_TK_API_ED25519", x.Sig}), x.Msg)
		if got != want {
			t.Errorf("vector %d %v: accepted %v", x.Number, x.Flags, got)
		}
		if got {
			taken++
		} else {
			refused++
		}
	}
	if len(vectors) != 914 {
		t.Errorf("%d vectors", len(vectors))
	}
	t.Logf("ed25519vectors.json: %d accepted, %d refused, as the rule says", taken, refused)
}
