package keys

import (
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/erase"
)

// SignWithAux signs by BIP-340 with auxiliary randomness.
func SignWithAux(k *PrivateKey, tweak bool, digest, aux [32]byte) (sig Signature, err error) {
	err = k.use(func(s curveKey) error { return s.(*keySecp256k1).schnorr(&sig, k.public, tweak, digest[:], aux) })
	return sig, err
}

// SignBareAs signs in a scheme without a grant, for benchmarks.
func SignBareAs(k *PrivateKey, s chain.Scheme, message []byte) (Signature, error) {
	return k.sign(s, message)
}

// MaskedTweaked gives the bytes of the tweaked key, and of the tweaked key negated,
// to the memory scan, each xored with mask.
func (k *PrivateKey) MaskedTweaked(mask [32]byte) (out [2][32]byte) {
	k.use(func(s curveKey) error {
		erase.Do(func() {
			d := s.(*keySecp256k1).private.Key
			tapTweak(&d, k.public)
			for i := range out {
				d.PutBytes(&out[i])
				for j := range out[i] {
					out[i][j] ^= mask[j]
				}
				d.Negate()
			}
			d.Zero()
		})
		return nil
	})
	return out
}
