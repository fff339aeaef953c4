package keys

import (
	"errors"
	"io"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/erase"
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
		d := secp256k1.PrivKeyFromBytes(key[:])
		copy(out[:], d.PubKey().SerializeCompressed())
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
	parse:     newSecp256k1,
	footprint: 512,
}

// A keySecp256k1 signs by RFC 6979 and by BIP-340, with the libraries' arithmetic.
// NOT ALL OF IT IS CONSTANT-TIME: decred multiplies the base point (by the key for the
// public key, by the nonce for each signature) faster where a byte of the scalar is zero,
// and inverts the nonce of ECDSA through math/big. No library in wide use does better
// without cgo. The host can measure it, but only as part of a whole request's time.
type keySecp256k1 struct{ private secp256k1.PrivateKey }

// newSecp256k1 parses an accepted scalar and computes its point.
func newSecp256k1(point *[65]byte, raw *[32]byte) (curveKey, error) {
	k := new(keySecp256k1)
	k.private.Key.SetBytes(raw)
	copy(point[:], k.private.PubKey().SerializeUncompressed())
	return k, nil
}

// errSignature has a probability of 2^-127 unless the arithmetic is broken.
var errSignature = errors.New("no signature of this form")

// recoverable is the first byte of the library's recoverable signatures, minus the recovery id.
const recoverable = 27 + 4

func (k *keySecp256k1) sign(out *Signature, public chain.PublicKey, scheme chain.Scheme, digest []byte) error {
	if scheme != chain.ECDSA {
		return k.schnorr(out, public, scheme == chain.Taproot, digest, noAux)
	}
	erase.Do(func() {
		b := ecdsa.SignCompact(&k.private, digest, true)
		out.V = b[0] - recoverable
		copy(out.R[:], b[1:33])
		copy(out.S[:], b[33:])
	})
	if out.V > 1 { // x of the nonce point is not below the order: the public interface has no such recovery id
		return errSignature
	}
	return nil
}

// verify checks r and s by the equation of every ECDSA verifier: with u = e/s and v = r/s,
// the point u*G + v*Q has r as its x. A verifier knows only the point Q and multiplies it.
// With d the same point is (u + (v-1)*d)*G + Q, one multiplication of G, for which there
// are tables: some 40 us instead of the library's 190, 28 % of a whole request.
//
// It detects the faults that a verifier detects. A fault in r, s, e, the nonce or d changes
// the point, since Q was computed from d independently. So does a fault in the tables, since
// the scalar here is not the nonce. The recovery id is not checked: it selects one of two
// points and reveals no key. Points and scalars are the library's.
func (k *keySecp256k1) verify(sig *Signature, public chain.PublicKey, scheme chain.Scheme, message []byte) bool {
	if scheme != chain.ECDSA {
		return verified{}.verify(sig, public, scheme, message)
	}
	var r, u, v, n secp256k1.ModNScalar
	if r.SetBytes(&sig.R) != 0 || v.SetBytes(&sig.S) != 0 || r.IsZero() || v.IsZero() || v.IsOverHalfOrder() {
		return false
	}
	v.InverseNonConst()
	u.SetByteSlice(message)
	u.Mul(&v)
	v.Mul(&r)
	var made, q secp256k1.JacobianPoint
	q.X.SetByteSlice(public.Bytes()[1:33])
	q.Y.SetByteSlice(public.Bytes()[33:])
	q.Z.SetInt(1)
	erase.Do(func() {
		n.SetInt(1).Negate().Add(&v).Mul(&k.private.Key).Add(&u)
		secp256k1.ScalarBaseMultNonConst(&n, &made)
		n.Zero()
	})
	secp256k1.AddNonConst(&made, &q, &made)
	// x is X/Z^2. The point at infinity has Z = 0 and no x.
	var x secp256k1.FieldVal
	x.SetBytes(&sig.R)
	x.Mul(made.Z.Square()).Normalize()
	return !made.Z.Normalize().IsZero() && x.Equals(made.X.Normalize())
}

func (k *keySecp256k1) bytes(out *[32]byte) { k.private.Key.PutBytes(out) }

func (k *keySecp256k1) wipe() { k.private.Zero() }

// noAux is the auxiliary randomness of BIP-340: 32 zero bytes, which the standard allows and
// other wallets use, so that key and message determine the signature. Randomness would
// protect against faults while signing; verifying detects those.
var noAux [32]byte

// schnorr signs by BIP-340. With tweak the key is first tweaked by BIP-341 for a key path
// without a script tree. The library's own verification is off, since verify does it.
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

// tapTweak replaces the private key of an internal key by that of its output key, which
// commits to the internal key and to no script (BIP-341). It returns false for a sum of zero.
func tapTweak(d *secp256k1.ModNScalar, public chain.PublicKey) bool {
	t, ok := public.TapTweak()
	if odd := public.Compressed()[0] == 3; odd {
		d.Negate()
	}
	d.Add(&t)
	return ok && !d.IsZero()
}

// multiply computes key*point. The library's time depends on the scalar, and an attacker may choose the point. So the
// key is split into a random scalar and the difference, and the two products are added.
func multiply(rand io.Reader, key *secp256k1.ModNScalar, point chain.PublicKey) (chain.PublicKey, error) {
	var part, rest secp256k1.ModNScalar
	defer part.Zero()
	defer rest.Zero()
	if err := drawScalar(rand, &part); err != nil {
		return chain.PublicKey{}, err
	}
	rest.NegateVal(&part).Add(key)
	p, err := secp256k1.ParsePubKey(point.Bytes())
	if err != nil {
		return chain.PublicKey{}, err
	}
	var of, first, second, sum secp256k1.JacobianPoint
	p.AsJacobian(&of)
	secp256k1.ScalarMultNonConst(&part, &of, &first)
	secp256k1.ScalarMultNonConst(&rest, &of, &second)
	secp256k1.AddNonConst(&first, &second, &sum)
	sum.ToAffine()
	return chain.NewPublicKey(chain.Secp256k1, secp256k1.NewPublicKey(&sum.X, &sum.Y).SerializeUncompressed())
}
