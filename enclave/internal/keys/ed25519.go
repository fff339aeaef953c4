package keys

import (
	"crypto/ed25519"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/erase"
)

var schemeEd25519 = scheme{
	master:    "ed25519 seed",
	accept:    func(*[32]byte) bool { return true },
	parse:     newEd25519,
	footprint: 896,
}

// A keyEd25519 is a private key of crypto/ed25519: seed and public key.
type keyEd25519 struct {
	verified
	key ed25519.PrivateKey
}

func newEd25519(point *[65]byte, raw *[32]byte) (curveKey, error) {
	k := &keyEd25519{key: ed25519.NewKeyFromSeed(raw[:])}
	copy(point[:], k.key[32:])
	return k, nil
}

func (k *keyEd25519) sign(out *Signature, _ chain.PublicKey, _ chain.Scheme, message []byte) error {
	erase.Do(func() {
		sig := ed25519.Sign(k.key, message)
		copy(out.R[:], sig[:32])
		copy(out.S[:], sig[32:])
	})
	return nil
}

func (k *keyEd25519) bytes(out *[32]byte) { copy(out[:], k.key[:32]) }

func (k *keyEd25519) wipe() { clear(k.key) }
