package stamp_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secp256k1ecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/stamp"
)

func benchVerify(b *testing.B, name string, fresh bool) {
	x := known(b, name)
	headers, body := xstamp(x.Value), []byte(x.Body)
	v := stamp.NewVerifier()
	b.ReportAllocs()
	for b.Loop() {
		if fresh {
			b.StopTimer()
			v = stamp.NewVerifier()
			b.StartTimer()
		}
		if _, err := v.Verify(headers, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyP256(b *testing.B)           { benchVerify(b, "p256_node_activity", false) }
func BenchmarkVerifyP256UnknownKey(b *testing.B) { benchVerify(b, "p256_node_activity", true) }
func BenchmarkVerifySecp256k1(b *testing.B)      { benchVerify(b, "secp256k1_go_activity", false) }
func BenchmarkVerifyEIP191(b *testing.B)         { benchVerify(b, "secp256k1_eip191_activity", false) }
func BenchmarkVerifyEd25519(b *testing.B)        { benchVerify(b, "ed25519_go_activity", false) }

// bare returns the bytes that the primitives want.
func bare(b *testing.B, name string) (key, sig, body []byte) {
	x := known(b, name)
	key, err := hex.DecodeString(x.Decoded.PublicKey)
	if err != nil {
		b.Fatal(err)
	}
	sig, err = hex.DecodeString(x.Decoded.Signature)
	if err != nil {
		b.Fatal(err)
	}
	return key, sig, []byte(x.Body)
}

func BenchmarkBareP256(b *testing.B) {
	key, sig, body := bare(b, "p256_node_activity")
	pub := p256(b, key)
	b.ReportAllocs()
	for b.Loop() {
		digest := sha256.Sum256(body)
		if !ecdsa.VerifyASN1(pub, digest[:], sig) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkBareSecp256k1(b *testing.B) {
	key, sig, body := bare(b, "secp256k1_go_activity")
	pub, err := secp256k1.ParsePubKey(key)
	if err != nil {
		b.Fatal(err)
	}
	parsed, err := secp256k1ecdsa.ParseDERSignature(sig)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		digest := sha256.Sum256(body)
		if !parsed.Verify(digest[:], pub) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkBareEd25519(b *testing.B) {
	key, sig, body := bare(b, "ed25519_go_activity")
	b.ReportAllocs()
	for b.Loop() {
		if !ed25519.Verify(key, body, sig) {
			b.Fatal("refused")
		}
	}
}

// p256 is a public key by its compressed point.
func p256(t testing.TB, compressed []byte) *ecdsa.PublicKey {
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), compressed)
	if x == nil {
		t.Fatal("no point")
	}
	b := make([]byte, 65)
	b[0] = 4
	x.FillBytes(b[1:33])
	y.FillBytes(b[33:])
	k, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
