package keys

import (
	"crypto/sha256"
	"errors"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

var errSchnorr = errors.New("BIP-340 gives no signature") // a chance of 2^-127, or broken arithmetic

// noAux is the auxiliary randomness of BIP-340: 32 zero bytes, which the standard
// allows and other wallets use, so that a signature is determined by key and
// message. What randomness would protect from, a fault while signing, is caught
// by verifying.
var noAux [32]byte

// schnorr signs by BIP-340 and verifies what it has signed; with tweak the key is
// first tweaked as BIP-341 has it for a key path without a script tree.
func (k *keySecp256k1) schnorr(out *Signature, tweak bool, digest []byte) error {
	return k.bip340(out, tweak, digest, noAux)
}

func (k *keySecp256k1) bip340(out *Signature, tweak bool, digest []byte, aux [32]byte) error {
	var r, s [32]byte
	ok := false
	do(func() {
		d := secp256k1.PrivateKey{Key: k.d}
		if !tweak || tapTweak(&d.Key) {
			if sig, err := schnorr.Sign(&d, digest, schnorr.CustomNonce(aux)); err == nil {
				b := sig.Serialize()
				copy(r[:], b[:32])
				copy(s[:], b[32:])
				ok = true
			}
		}
		d.Zero()
	})
	if !ok {
		return errSchnorr
	}
	*out = Signature{R: r, S: s}
	return nil
}

var tapTweakTag = sha256.Sum256([]byte("TapTweak"))

// tapTweak replaces the private key of an internal key by that of the output key
// which commits to it and to no script. It refuses a tweak that is not below the
// order and a sum of zero.
func tapTweak(d *secp256k1.ModNScalar) bool {
	var p secp256k1.JacobianPoint
	secp256k1.ScalarBaseMultNonConst(d, &p)
	p.ToAffine()
	if p.Y.IsOdd() {
		d.Negate()
	}
	var m [96]byte
	copy(m[:32], tapTweakTag[:])
	copy(m[32:64], tapTweakTag[:])
	p.X.PutBytesUnchecked(m[64:])
	sum := sha256.Sum256(m[:])
	var t secp256k1.ModNScalar
	over := t.SetBytes(&sum)
	d.Add(&t)
	return over == 0 && !d.IsZero()
}
