package keys_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
)

// secp is a key of 32 bytes in hexadecimal.
func secp(t testing.TB, text string) *keys.PrivateKey {
	t.Helper()
	k, err := keys.PrivateKeyFromSecret(chain.Secp256k1, mustSecret(t, unhex(t, text)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// schnorrSigned signs with a grant.
func schnorrSigned(t testing.TB, k *keys.PrivateKey, s chain.Scheme, digest []byte) keys.Signature {
	t.Helper()
	sigs, err := signs(t, k).Sign(k, chain.Digest{Scheme: s, Message: digest})
	if err != nil {
		t.Fatal(err)
	}
	return sigs[0]
}

// verifies holds a signature against the x of a public key with the library.
func verifies(x, digest, sig []byte) bool {
	p, err := schnorr.ParsePubKey(x)
	if err != nil {
		return false
	}
	s, err := schnorr.ParseSignature(sig)
	return err == nil && s.Verify(digest, p)
}

// output computes the x of the tweaked key by the formula of BIP-341 over the
// integers of math/big and the library's points, apart from the code under test.
func output(t testing.TB, p chain.PublicKey) []byte {
	t.Helper()
	x := p.Bytes()[1:33]
	even, err := secp256k1.ParsePubKey(append([]byte{2}, x...))
	if err != nil {
		t.Fatal(err)
	}
	tag := sha256.Sum256([]byte("TapTweak"))
	h := sha256.Sum256(slices.Concat(tag[:], tag[:], x))
	n, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	if new(big.Int).SetBytes(h[:]).Cmp(n) >= 0 {
		t.Fatal("a tweak over the order")
	}
	var a, b, sum secp256k1.JacobianPoint
	even.AsJacobian(&a)
	secp256k1.PrivKeyFromBytes(h[:]).PubKey().AsJacobian(&b)
	secp256k1.AddNonConst(&a, &b, &sum)
	sum.ToAffine()
	out := sum.X.Bytes()
	return out[:]
}

func both(s keys.Signature) []byte { return slices.Concat(s.R[:], s.S[:]) }

// TestBIP340 is the list of the standard: signing with its auxiliary randomness,
// and what verifying must refuse.
func TestBIP340(t *testing.T) {
	b, err := os.ReadFile("testdata/bip340.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	signed, refused := 0, 0
	for _, row := range rows[1:] {
		digest, sig := unhex(t, row[4]), unhex(t, row[5])
		if got := verifies(unhex(t, row[2]), digest, sig); got != (row[6] == "TRUE") {
			// The library reads an s of the order as zero, and refuses by the equation.
			t.Errorf("%s: verifying says %t", row[0], got)
		}
		if row[6] == "FALSE" {
			refused++
		}
		if row[1] == "" {
			continue
		}
		k := secp(t, row[1])
		if x := k.Public().Bytes()[1:33]; !strings.EqualFold(hex.EncodeToString(x), row[2]) {
			t.Errorf("%s: public key %x", row[0], x)
		}
		s, err := keys.SignWithAux(k, false, [32]byte(digest), [32]byte(unhex(t, row[3])))
		if err != nil || !bytes.Equal(both(s), sig) || s.V != 0 {
			t.Errorf("%s: %x, %v", row[0], both(s), err)
		}
		if row[0] == "0" && schnorrSigned(t, k, chain.Schnorr, digest) != s {
			t.Error("without randomness the vector with zeros should come out")
		}
		signed++
	}
	if signed != 4 || refused != 10 {
		t.Errorf("%d signed, %d refused", signed, refused)
	}
}

// TestBIP341 is the standard's list of spending by the key path. Only the first of
// its inputs has no script tree, so that the tweak is ours; the others sign with
// the tweaked key that the list gives.
func TestBIP341(t *testing.T) {
	var f struct {
		InternalPubkey, TweakedPubkey string
		InputSpending                 []struct {
			InternalPrivkey, TweakedPrivkey, SigHash, Witness string
			MerkleRoot                                        *string
		}
	}
	load(t, "testdata/bip341.json", &f)
	ours := 0
	for i, v := range f.InputSpending {
		digest, want := unhex(t, v.SigHash), unhex(t, v.Witness)[:64]
		if got := both(schnorrSigned(t, secp(t, v.TweakedPrivkey), chain.Schnorr, digest)); !bytes.Equal(got, want) {
			t.Errorf("%d: %x", i, got)
		}
		if v.MerkleRoot != nil {
			continue
		}
		k := secp(t, v.InternalPrivkey)
		if got := both(schnorrSigned(t, k, chain.Taproot, digest)); !bytes.Equal(got, want) {
			t.Errorf("%d, tweaked: %x", i, got)
		}
		x := k.Public().Bytes()[1:33]
		if hex.EncodeToString(x) != f.InternalPubkey || hex.EncodeToString(output(t, k.Public())) != f.TweakedPubkey {
			t.Errorf("%d: keys %x, %x", i, x, output(t, k.Public()))
		}
		ours++
	}
	if len(f.InputSpending) != 7 || ours != 1 {
		t.Errorf("%d inputs, %d without a tree", len(f.InputSpending), ours)
	}
}

// TestBIP86 is the standard's list: derivation, internal key and output key.
func TestBIP86(t *testing.T) {
	const seed = "5eb00bbddcf069084889a8ab9155568165f5c453ccb85e70811aaed6f6da5fc19a5ac40b389cd370d086206dec8aa6c43daea6690f20ad3d8d48b2d2ce9e38e4"
	for path, want := range map[string][2]string{
		"m/86'/0'/0'/0/0": {"cc8a4bc64d897bddc5fbc2f670f7a8ba0b386779106cf1223c6fc5d7cd6fc115", "a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f1dc6880949dc684c"},
		"m/86'/0'/0'/0/1": {"83dfe85a3151d2517290da461fe2815591ef69f2b18a2ce63f01697a8b313145", "a82f29944d65b86ae6b5e5cc75e294ead6c59391a1edc5e016e3498c67fc7bbb"},
		"m/86'/0'/0'/1/0": {"399f1b2f4393f29a18c937859c5dd8a77350103157eb880f02e8c08214277cef", "882d74e5d0572d5a816cef0041a96b6c1de832f6f9676d9605c44d5e9a97d3dc"},
	} {
		raw, _, ok := keys.DeriveFromSeed(unhex(t, seed), chain.Secp256k1, path)
		if !ok {
			t.Fatal(path)
		}
		k := secp(t, hex.EncodeToString(raw))
		if x := k.Public().Bytes()[1:33]; hex.EncodeToString(x) != want[0] {
			t.Errorf("%s: internal key %x", path, x)
		}
		digest := sha256.Sum256([]byte(path))
		if s := schnorrSigned(t, k, chain.Taproot, digest[:]); !verifies(unhex(t, want[1]), digest[:], both(s)) {
			t.Errorf("%s: does not verify under the output key", path)
		}
	}
}

// TestRawSigningSchnorr is the project's own vectors: a P2TR address signs tweaked,
// Spark untweaked. Both are determined, since they were made without randomness.
func TestRawSigningSchnorr(t *testing.T) {
	var f struct {
		Vectors []struct {
			Name, Curve string
			PrivateKey  string `json:"private_key"`
			Untweaked   string `json:"untweaked_private_key"`
			Output      string `json:"output_key"`
			Signed      string `json:"signed_bytes_hex"`
			Result      struct{ R, S, V string }
		}
	}
	load(t, "testdata/raw_signing.json", &f)
	done := 0
	for _, v := range f.Vectors {
		if v.Curve != "schnorr" {
			continue
		}
		digest := unhex(t, v.Signed)
		check := func(k *keys.PrivateKey, scheme chain.Scheme, x []byte) {
			s := schnorrSigned(t, k, scheme, digest)
			r, ss, vv := s.Texts()
			if r != v.Result.R || ss != v.Result.S || vv != v.Result.V || !verifies(x, digest, both(s)) {
				t.Errorf("%s, scheme %d: %s %s %s", v.Name, scheme, r, ss, vv)
			}
			done++
		}
		k := secp(t, v.PrivateKey)
		check(k, chain.Schnorr, k.Public().Bytes()[1:33])
		if v.Untweaked != "" {
			check(secp(t, v.Untweaked), chain.Taproot, unhex(t, v.Output))
		}
	}
	if done != 3 {
		t.Errorf("%d signatures", done)
	}
}

// TestSchnorrOfManyKeys signs with random keys, of either parity of y, and holds the
// result against the output key that is computed from the public key alone.
func TestSchnorrOfManyKeys(t *testing.T) {
	parities := [2]int{}
	for i := range 200 {
		k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
		if err != nil {
			t.Fatal(err)
		}
		parities[k.Public().Bytes()[64]&1]++
		digest := make([]byte, 32)
		rand.Read(digest)
		if i%4 == 0 { // above the order
			copy(digest, bytes.Repeat([]byte{0xff}, 31))
		}
		x, q := k.Public().Bytes()[1:33], output(t, k.Public())
		plain, tweaked := schnorrSigned(t, k, chain.Schnorr, digest), schnorrSigned(t, k, chain.Taproot, digest)
		if !verifies(x, digest, both(plain)) || !verifies(q, digest, both(tweaked)) {
			t.Fatalf("%d: a signature does not verify", i)
		}
		if verifies(q, digest, both(plain)) || verifies(x, digest, both(tweaked)) {
			t.Fatalf("%d: the schemes are mixed up", i)
		}
		if again := schnorrSigned(t, k, chain.Taproot, digest); again != tweaked {
			t.Fatalf("%d: not determined", i)
		}
		for j := range 64 {
			b := both(tweaked)
			b[j] ^= 1
			if i < 2 && verifies(q, digest, b) {
				t.Errorf("%d: byte %d may be flipped", i, j)
			}
		}
	}
	if parities[0] == 0 || parities[1] == 0 {
		t.Errorf("parities %v", parities)
	}
}

func TestSchnorrRefuses(t *testing.T) {
	k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []chain.Scheme{chain.Taproot, chain.Schnorr} {
		for _, n := range []int{0, 1, 31, 33, 64} {
			sigs, err := signs(t, k).Sign(k, chain.Digest{Scheme: s, Message: make([]byte, n)})
			if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument || sigs != nil {
				t.Errorf("scheme %d, %d bytes: %v", s, n, err)
			}
		}
		for _, c := range []chain.Curve{chain.P256, chain.Ed25519} {
			other, err := keys.GeneratePrivateKey(rand.Reader, c)
			if err != nil {
				t.Fatal(err)
			}
			sigs, err := signs(t, other).Sign(other, chain.Digest{Scheme: s, Message: make([]byte, 32)})
			if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument || sigs != nil {
				t.Errorf("scheme %d with %v: %v", s, c, err)
			}
		}
	}
	k.Wipe()
	if sigs, err := signs(t, k).Sign(k, chain.Digest{Scheme: chain.Taproot, Message: make([]byte, 32)}); err == nil || sigs != nil {
		t.Error("a wiped key signed")
	}
}

// BenchmarkSchnorr times BIP-340, tweaked and not, beside our ECDSA and the
// library's BIP-340 with and without its verification.
func BenchmarkSchnorr(b *testing.B) {
	k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
	if err != nil {
		b.Fatal(err)
	}
	digest := sha256.Sum256([]byte("cloister"))
	for name, s := range map[string]chain.Scheme{"ecdsa": chain.ECDSA, "schnorr": chain.Schnorr, "taproot": chain.Taproot} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := keys.SignBareAs(k, s, digest[:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	bare, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		b.Fatal(err)
	}
	for name, options := range map[string][]schnorr.SignOption{
		"bare": {schnorr.CustomNonce([32]byte{})}, "bare-unverified": {schnorr.CustomNonce([32]byte{}), schnorr.FastSign()}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schnorr.Sign(bare, digest[:], options...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
