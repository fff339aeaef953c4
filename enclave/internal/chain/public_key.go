package chain

import (
	"errors"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/p256"
)

// Sizes of public keys in bytes.
const (
	uncompressedSize = 65
	compressedSize   = 33
	ed25519Size      = 32
)

// ErrPublicKey is returned for bytes that are no public key on the curve.
var ErrPublicKey = errors.New("no public key on this curve")

// A PublicKey is a point on a curve: for secp256k1 and P-256 checked to be one,
// for ed25519 any 32 bytes. It is comparable; the zero value is no key.
type PublicKey struct {
	curve Curve
	raw   [uncompressedSize]byte // 04‖X‖Y, or 32 bytes and zeros
}

// NewPublicKey reads a public key: SEC 1 uncompressed (65 bytes, 04) or
// compressed (33 bytes, 02 or 03) for secp256k1 and P-256, RFC 8032 (32 bytes)
// for ed25519. Hybrid forms, the point at infinity and points off the curve
// give ErrPublicKey.
func NewPublicKey(c Curve, b []byte) (PublicKey, error) {
	p := PublicKey{curve: c}
	ok := false
	switch {
	case c == Ed25519:
		ok = len(b) == ed25519Size && copy(p.raw[:], b) == len(b)
	case !sec1(b):
	case c == Secp256k1:
		if k, err := secp256k1.ParsePubKey(b); err == nil {
			ok = copy(p.raw[:], k.SerializeUncompressed()) == uncompressedSize
		}
	case c == P256:
		p.raw, ok = p256.Uncompressed(b)
	}
	if !ok {
		return PublicKey{}, ErrPublicKey
	}
	return p, nil
}

// sec1 reports whether b has length and prefix of a SEC 1 point.
func sec1(b []byte) bool {
	switch len(b) {
	case uncompressedSize:
		return b[0] == 4
	case compressedSize:
		return b[0] == 2 || b[0] == 3
	}
	return false
}

// Curve is the curve of the key, zero for the zero key.
func (p PublicKey) Curve() Curve { return p.curve }

// Bytes is the key as 65 bytes 04‖X‖Y, or 32 bytes for ed25519; nil for the
// zero key. The slice is the caller's.
func (p PublicKey) Bytes() []byte {
	switch p.curve {
	case Ed25519:
		return p.raw[:ed25519Size]
	case Secp256k1, P256:
		return p.raw[:]
	}
	return nil
}

// Compressed is the key as 33 bytes, or 32 bytes for ed25519; nil for the zero
// key. The slice is the caller's.
func (p PublicKey) Compressed() []byte {
	if p.curve == Secp256k1 || p.curve == P256 {
		p.raw[0] = 2 | p.raw[uncompressedSize-1]&1
		return p.raw[:compressedSize]
	}
	return p.Bytes()
}

// KeccakAccount is the last 20 bytes of the Keccak-256 of a secp256k1 point: the name
// of its account on Ethereum, Tempo and Tron.
func (p PublicKey) KeccakAccount() [20]byte {
	sum := Keccak(p.raw[1:])
	return [20]byte(sum[12:])
}

// TapTweak is what BIP-341 adds to a secp256k1 key that commits to no script. ok is false
// when it is not below the order, which has a chance of 2^-128.
func (p PublicKey) TapTweak() (t secp256k1.ModNScalar, ok bool) {
	sum := TaggedHash("TapTweak", p.raw[1:33])
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
