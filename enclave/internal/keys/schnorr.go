package keys

import (
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
)

// noAux is the auxiliary randomness of BIP-340: 32 zero bytes, which the standard
// allows and other wallets use, so that a signature is determined by key and
// message. What randomness would protect from, a fault while signing, is caught
// by verifying.
var noAux [32]byte

// schnorr signs by BIP-340; with tweak the key is first tweaked as BIP-341 has it for
// a key path without a script tree. The library does not verify what it signs, for
// verify does.
func (k *keySecp256k1) schnorr(out *Signature, public chain.PublicKey, tweak bool, digest []byte, aux [32]byte) error {
	ok := false
	do(func() {
		d := k.private
		if !tweak || tapTweak(&d.Key, public) {
			if sig, err := schnorr.Sign(&d, digest, schnorr.CustomNonce(aux), schnorr.FastSign()); err == nil {
				b := sig.Serialize()
				copy(out.R[:], b[:32])
				copy(out.S[:], b[32:])
				ok = true
			}
		}
		d.Zero()
	})
	if !ok {
		return errSignature
	}
	return nil
}

// tapTweak replaces the private key of an internal key by that of the output key
// which commits to it and to no script. It refuses a sum of zero.
func tapTweak(d *secp256k1.ModNScalar, public chain.PublicKey) bool {
	t, ok := public.TapTweak()
	if odd := public.Compressed()[0] == 3; odd {
		d.Negate()
	}
	d.Add(&t)
	return ok && !d.IsZero()
}
