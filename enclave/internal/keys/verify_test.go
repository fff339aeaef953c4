package keys_test

import (
	"crypto/rand"
	"fmt"
	"testing"

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
		{"secp256k1", chain.Secp256k1, chain.ECDSA, 65},
		{"P-256", chain.P256, chain.ECDSA, 64}, // v follows from r, s and the public key
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
