package keys_test

import (
	"crypto/rand"
	"crypto/sha256"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
)

// What Sign makes is verified, of every curve and scheme, and nothing near it.
func TestVerifyRecorded(t *testing.T) {
	sum := sha256.Sum256([]byte("message"))
	for _, c := range []struct {
		curve  chain.Curve
		scheme chain.Scheme
	}{{chain.Secp256k1, chain.ECDSA}, {chain.Secp256k1, chain.Schnorr}, {chain.Secp256k1, chain.Taproot}, {chain.P256, chain.ECDSA}, {chain.Ed25519, chain.EdDSA}} {
		k, err := keys.GeneratePrivateKey(rand.Reader, c.curve)
		if err != nil {
			t.Fatal(err)
		}
		other, err := keys.GeneratePrivateKey(rand.Reader, c.curve)
		if err != nil {
			t.Fatal(err)
		}
		d := chain.Digest{Scheme: c.scheme, Message: sum[:]}
		made, err := signs(t, k).Sign(k, d)
		if err != nil {
			t.Fatal(err)
		}
		s := made[0]
		if !keys.Verify(k.Public(), d, &s) {
			t.Errorf("%v %v: refused", c.curve, c.scheme)
		}
		if keys.Verify(other.Public(), d, &s) {
			t.Errorf("%v %v: another key's is taken", c.curve, c.scheme)
		}
		for bit := range 8 * 32 {
			for _, part := range []*[32]byte{&s.R, &s.S} {
				part[bit/8] ^= 1 << (bit % 8)
				if keys.Verify(k.Public(), d, &s) {
					t.Errorf("%v %v: bit %d is another one", c.curve, c.scheme, bit)
				}
				part[bit/8] ^= 1 << (bit % 8)
			}
		}
		for _, v := range []byte{s.V ^ 1, 2, 27, 255} {
			wrong := s
			if wrong.V = v; keys.Verify(k.Public(), d, &wrong) {
				t.Errorf("%v %v: v %d is taken for %d", c.curve, c.scheme, v, s.V)
			}
		}
		if keys.Verify(k.Public(), chain.Digest{Scheme: c.scheme, Message: []byte("another")}, &s) {
			t.Errorf("%v %v: another message", c.curve, c.scheme)
		}
		for _, scheme := range []chain.Scheme{chain.ECDSA, chain.Schnorr, chain.Taproot, chain.EdDSA} {
			if scheme != c.scheme && keys.Verify(k.Public(), chain.Digest{Scheme: scheme, Message: sum[:]}, &s) {
				t.Errorf("%v %v: passes for %v", c.curve, c.scheme, scheme)
			}
		}
	}
}
