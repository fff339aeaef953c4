package chain

import (
	"crypto/sha256"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

var tapTweak = sha256.Sum256([]byte("TapTweak"))

// TapTweak is what BIP-341 adds to a secp256k1 key that commits to no script; ok is
// false when it is not below the order, which has a chance of 2^-128.
func (p PublicKey) TapTweak() (t secp256k1.ModNScalar, ok bool) {
	h := sha256.New()
	h.Write(tapTweak[:])
	h.Write(tapTweak[:])
	h.Write(p.raw[1:33])
	var sum [32]byte
	h.Sum(sum[:0])
	over := t.SetBytes(&sum)
	return t, p.curve == Secp256k1 && over == 0
}

// Taproot is the x of the point that commits to a secp256k1 key and to no script
// (BIP-341, BIP-86).
func (p PublicKey) Taproot() (x [32]byte, ok bool) {
	t, ok := p.TapTweak()
	if !ok {
		return x, false
	}
	var point, tweak, sum secp256k1.JacobianPoint
	point.X.SetByteSlice(p.raw[1:33])
	point.Y.SetByteSlice(p.raw[33:])
	point.Z.SetInt(1)
	if point.Y.IsOdd() {
		point.Y.Negate(1).Normalize()
	}
	secp256k1.ScalarBaseMultNonConst(&t, &tweak)
	secp256k1.AddNonConst(&point, &tweak, &sum)
	if sum.X.IsZero() && sum.Y.IsZero() || sum.Z.IsZero() {
		return x, false
	}
	sum.ToAffine()
	sum.X.PutBytes(&x)
	return x, true
}
