package keys

import (
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/erase"
)

// noAux is the auxiliary randomness of BIP-340: 32 zero bytes, which the standard allows and
// other wallets use, so that key and message determine a signature. Randomness would
// protect from a fault while signing; verifying finds that.
var noAux [32]byte

// schnorr signs by BIP-340. With tweak the key is first tweaked as BIP-341 does for a key
// path without a script tree. The library need not verify, since verify does.
func (k *keySecp256k1) schnorr(out *Signature, public chain.PublicKey, tweak bool, digest []byte, aux [32]byte) error {
	ok := false
	erase.Do(func() {
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

// tapTweak replaces an internal key's private key by that of the output key which commits
// to it and to no script. It refuses a sum of zero.
func tapTweak(d *secp256k1.ModNScalar, public chain.PublicKey) bool {
	t, ok := public.TapTweak()
	if odd := public.Compressed()[0] == 3; odd {
		d.Negate()
	}
	d.Add(&t)
	return ok && !d.IsZero()
}
