package keys

import (
	"errors"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
)

var schemeSecp256k1 = scheme{
	master: "Bitcoin seed",
	accept: func(b *[32]byte) bool {
		var d secp256k1.ModNScalar
		ok := d.SetBytes(b) == 0 && !d.IsZero()
		d.Zero()
		return ok
	},
	public: func(out *[33]byte, key *[32]byte) {
		var d secp256k1.ModNScalar
		d.SetBytes(key)
		var p secp256k1.JacobianPoint
		secp256k1.ScalarBaseMultNonConst(&d, &p)
		p.ToAffine()
		out[0] = 2 | byte(p.Y.IsOddBit())
		p.X.PutBytesUnchecked(out[1:])
		d.Zero()
	},
	add: func(key, tweak *[32]byte) bool {
		var d, t secp256k1.ModNScalar
		over := t.SetBytes(tweak)
		d.SetBytes(key)
		d.Add(&t)
		t.Zero()
		if over != 0 || d.IsZero() {
			d.Zero()
			return false
		}
		d.PutBytes(key)
		d.Zero()
		return true
	},
}

// A keySecp256k1 signs by RFC 6979. It is the library's arithmetic under the
// textbook formula, rather than the library's signing function, for two
// reasons: that function makes 29 allocations, which inside do cost two fifths
// of its time again, and it inverts the bare nonce through math/big.
type keySecp256k1 struct{ d secp256k1.ModNScalar }

// newSecp256k1 parses an accepted scalar and computes its point.
func newSecp256k1(point *[65]byte, raw *[32]byte) signer {
	k := new(keySecp256k1)
	k.d.SetBytes(raw)
	var p secp256k1.JacobianPoint
	secp256k1.ScalarBaseMultNonConst(&k.d, &p)
	p.ToAffine()
	point[0] = 4
	p.X.PutBytesUnchecked(point[1:33])
	p.Y.PutBytesUnchecked(point[33:])
	return k
}

var errNonce = errors.New("an unusable nonce") // a chance of 2^-127

// sign computes s as a/i, where a = (z + r·d)·b and i = k·b for nonce k and a
// factor b that nobody else knows. Given s, which is published, a and i tell
// nothing about k or d, so the division is done outside of do.
func (k *keySecp256k1) sign(out *Signature, scheme chain.Scheme, digest []byte) error {
	if scheme != chain.ECDSA {
		return k.schnorr(out, scheme == chain.Taproot, digest)
	}
	var a, i secp256k1.ModNScalar
	var r [32]byte
	var v byte
	ok := false
	do(func() { ok = k.blinded(&a, &i, &r, &v, (*[32]byte)(digest)) })
	if !ok {
		return errNonce
	}
	s := a.Mul(i.InverseNonConst())
	if s.IsZero() {
		return errNonce
	}
	if s.IsOverHalfOrder() {
		s.Negate()
		v ^= 1
	}
	out.R, out.V = r, v
	s.PutBytes(&out.S)
	return nil
}

// blinded computes r, its recovery id, a and i.
func (k *keySecp256k1) blinded(a, i *secp256k1.ModNScalar, r *[32]byte, v *byte, digest *[32]byte) bool {
	var raw, reduced [32]byte
	var z, nonce, factor, x secp256k1.ModNScalar
	var p secp256k1.JacobianPoint
	z.SetBytes(digest) // reduces
	z.PutBytes(&reduced)
	k.d.PutBytes(&raw)
	g := newNonces(&raw, &reduced)
	for g.next(&raw); nonce.SetBytes(&raw) != 0 || nonce.IsZero(); g.next(&raw) {
		g.refuse()
	}
	g.factor(&raw)
	factor.SetBytes(&raw) // reduces; the bias is 2^-128

	secp256k1.ScalarBaseMultNonConst(&nonce, &p)
	p.ToAffine()
	p.X.PutBytes(r)
	// An x at or above the order, or equal to zero, would need another nonce
	// and a recovery id that the interface does not have.
	ok := x.SetBytes(r) == 0 && !x.IsZero() && !factor.IsZero()
	*v = byte(p.Y.IsOddBit())
	a.Mul2(&x, &k.d).Add(&z).Mul(&factor)
	i.Mul2(&nonce, &factor)

	clear(raw[:])
	g = nonces{}
	nonce.Zero()
	factor.Zero()
	return ok
}

func (k *keySecp256k1) bytes(out *[32]byte) { k.d.PutBytes(out) }

func (k *keySecp256k1) wipe() { k.d.Zero() }
