package keys

import (
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/p256"
)

// Verify reports whether Sign could have made a signature for a digest with the private key of public: it is
// valid, has s in the low half and, where there is a recovery id, the right one.
func Verify(public chain.PublicKey, d chain.Digest, s *Signature) bool {
	if checkDigest(public.Curve(), d) != nil {
		return false
	}
	if d.Scheme == chain.ECDSA && public.Curve() == chain.P256 {
		key, err := p256.ParsePublicKey(public.Bytes())
		if err != nil {
			return false
		}
		sig := p256.Signature(slices.Concat(s.R[:], s.S[:]))
		v, ok := p256.RecoveryID(key, [32]byte(d.Message), &sig)
		return ok && v == s.V && p256.Verify(key, [32]byte(d.Message), sig[:])
	}
	if d.Scheme != chain.ECDSA || public.Curve() != chain.Secp256k1 {
		return verified{}.verify(s, public, d.Scheme, d.Message)
	}
	var r, low secp256k1.ModNScalar
	if s.V > 1 || r.SetBytes(&s.R) != 0 || low.SetBytes(&s.S) != 0 || r.IsZero() || low.IsZero() || low.IsOverHalfOrder() {
		return false
	}
	var compact [65]byte
	compact[0] = recoverable + s.V
	copy(compact[1:], s.R[:])
	copy(compact[33:], s.S[:])
	key, _, err := ecdsa.RecoverCompact(compact[:], d.Message)
	return err == nil && string(key.SerializeUncompressed()) == string(public.Bytes())
}
