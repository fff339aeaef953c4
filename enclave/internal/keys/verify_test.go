package keys_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	mrand "math/rand/v2"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	dcr "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
)

// TestFaultySignaturesStayInside breaks each part of a signature, in every scheme, on
// its way from the library: none leaves, also of a batch, and the key signs on.
func TestFaultySignaturesStayInside(t *testing.T) {
	schemes := []struct {
		name   string
		curve  chain.Curve
		scheme chain.Scheme
		parts  int
	}{
		{"secp256k1", chain.Secp256k1, chain.ECDSA, 64}, // the recovery id says which of two points was meant
		{"P-256", chain.P256, chain.ECDSA, 64},          // v follows from r, s and the public key
		{"ed25519", chain.Ed25519, chain.EdDSA, 65},
		{"BIP-340", chain.Secp256k1, chain.Schnorr, 65},
		{"BIP-341", chain.Secp256k1, chain.Taproot, 65},
	}
	for _, c := range schemes {
		k, err := keys.GeneratePrivateKey(rand.Reader, c.curve)
		if err != nil {
			t.Fatal(err)
		}
		part, faults := -1, 0
		k.Break(func(s *keys.Signature) {
			switch {
			case part < 0 || faults > 0:
				return
			case part < 32:
				s.R[part] ^= 1
			case part < 64:
				s.S[part-32] ^= 1
			default:
				s.V ^= 1
			}
			faults++
		})
		digest := chain.Digest{Scheme: c.scheme, Message: make([]byte, 32)}
		good, err := signs(t, k).Sign(k, digest)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for part = range c.parts {
			faults = 0
			if sigs, err := signs(t, k).Sign(k, digest, digest); err == nil || sigs != nil || faults != 1 {
				t.Errorf("%s: with a fault in byte %d %d signatures left, %v", c.name, part, len(sigs), err)
			}
		}
		part = -1
		if again, err := signs(t, k).Sign(k, digest); err != nil || again[0] != good[0] {
			t.Errorf("%s: after the faults: %v, %v", c.name, again, err)
		}
	}
}

// TestAnotherKeysSignatureStaysInside lets the library sign with a key that is not
// the one whose public half the enclave knows.
func TestAnotherKeysSignatureStaysInside(t *testing.T) {
	for _, c := range []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519} {
		k, err := keys.GeneratePrivateKey(rand.Reader, c)
		if err != nil {
			t.Fatal(err)
		}
		other, err := keys.GeneratePrivateKey(rand.Reader, c)
		if err != nil {
			t.Fatal(err)
		}
		digest := chain.Digest{Scheme: chain.SchemeOf(0, c), Message: make([]byte, 32)}
		sigs, err := signs(t, other).Sign(other, digest)
		if err != nil {
			t.Fatal(err)
		}
		k.Break(func(s *keys.Signature) { *s = sigs[0] })
		if got, err := signs(t, k).Sign(k, digest); err == nil || got != nil {
			t.Errorf("%v: %s", c, fmt.Sprint(got))
		}
	}
}

// TestVerifiedAsTheLibraryVerifies holds what verifies with the private key on secp256k1
// against the library's verifier: they take and refuse the same signatures.
func TestVerifiedAsTheLibraryVerifies(t *testing.T) {
	random := mrand.New(mrand.NewChaCha8([32]byte{1}))
	flip := func(b *[32]byte) { b[random.IntN(32)] ^= 1 << random.IntN(8) }
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	taken, refused := 0, 0
	for range rounds {
		k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
		if err != nil {
			t.Fatal(err)
		}
		public, err := secp256k1.ParsePubKey(k.Public().Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var message [32]byte
		rand.Read(message[:])
		sigs, err := signs(t, k).Sign(k, chain.Digest{Scheme: chain.ECDSA, Message: message[:]})
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range []func(*keys.Signature, *[32]byte){
			func(*keys.Signature, *[32]byte) {},
			func(s *keys.Signature, _ *[32]byte) { flip(&s.R) },
			func(s *keys.Signature, _ *[32]byte) { flip(&s.S) },
			func(_ *keys.Signature, m *[32]byte) { flip(m) },
			func(s *keys.Signature, _ *[32]byte) { s.R, s.S = s.S, s.R },
			func(s *keys.Signature, _ *[32]byte) { clear(s.R[:]) },
			func(s *keys.Signature, _ *[32]byte) { clear(s.S[:]) },
			func(s *keys.Signature, _ *[32]byte) { clear(s.R[:]); clear(s.S[:]) },
			func(s *keys.Signature, m *[32]byte) { s.R, s.S = *m, *m },
		} {
			sig, m := sigs[0], message
			change(&sig, &m)
			var r, s secp256k1.ModNScalar
			want := r.SetBytes(&sig.R) == 0 && s.SetBytes(&sig.S) == 0 && !s.IsOverHalfOrder() && dcr.NewSignature(&r, &s).Verify(m[:], public)
			if got := k.Verify(&sig, chain.ECDSA, m[:]); got != want {
				t.Fatalf("we say %v, the library says %v: r %x s %x of %x", got, want, sig.R, sig.S, m)
			}
			if want {
				taken++
			} else {
				refused++
			}
		}
	}
	if taken != rounds || refused != 8*rounds {
		t.Fatalf("%d taken, %d refused", taken, refused)
	}
}

// TestHighAndEndlessAreRefused looks at the two signatures that a signer can be made to
// give and that a plain equation takes: n - s, which a verifier takes and the interface
// does not give, and one whose nonce would be 0.
func TestHighAndEndlessAreRefused(t *testing.T) {
	key := secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{7}, 32))
	k, err := keys.PrivateKeyFromSecret(chain.Secp256k1, mustSecret(t, key.Serialize()))
	if err != nil {
		t.Fatal(err)
	}
	message := sha256.Sum256([]byte("high"))
	sigs, err := signs(t, k).Sign(k, chain.Digest{Scheme: chain.ECDSA, Message: message[:]})
	if err != nil {
		t.Fatal(err)
	}
	high := sigs[0]
	var s secp256k1.ModNScalar
	s.SetBytes(&high.S)
	s.Negate().PutBytes(&high.S)
	if !k.Verify(&sigs[0], chain.ECDSA, message[:]) || k.Verify(&high, chain.ECDSA, message[:]) {
		t.Error("a high s is taken, or a low one refused")
	}
	// e = -r*d: u*G + v*Q is the point at infinity, whatever s is.
	r := new(secp256k1.ModNScalar).SetInt(5)
	e := new(secp256k1.ModNScalar).Mul2(r, &key.Key).Negate().Bytes()
	endless := keys.Signature{R: r.Bytes(), S: r.Bytes()}
	if k.Verify(&endless, chain.ECDSA, e[:]) {
		t.Error("the point at infinity has no x")
	}
}

// TestKeyThatChangesInMemory flips each bit of a key that lies in memory: what it signs
// then is of another key, or shows the difference to it, and stays inside.
func TestKeyThatChangesInMemory(t *testing.T) {
	k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
	if err != nil {
		t.Fatal(err)
	}
	digest := chain.Digest{Scheme: chain.ECDSA, Message: make([]byte, 32)}
	for bit := range 256 {
		k.Flip(bit)
		if got, err := signs(t, k).Sign(k, digest); err == nil || got != nil {
			t.Fatalf("bit %d: %v", bit, got)
		}
		k.Flip(bit)
	}
	if _, err := signs(t, k).Sign(k, digest); err != nil {
		t.Fatal(err)
	}
}
