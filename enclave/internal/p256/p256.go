// Package p256 holds the forms of keys and signatures of P-256 (SEC 1, sections 2.3 and
// 4.1; FIPS 186-5): points of 65 bytes and of 33, signatures as r ‖ s and in DER, with the
// recovery id. math/big computes with public values alone.
package p256

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"math/big"

	"cloister/enclave/internal/der"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/tally"
)

// Sizes in bytes: of r, s, a coordinate and a private key; of a signature that is r
// and s; of a point in its two forms.
const (
	ScalarSize     = 32
	SignatureSize  = 2 * ScalarSize
	PointSize      = 1 + 2*ScalarSize
	CompressedSize = 1 + ScalarSize
)

var (
	order      = elliptic.P256().Params().N
	orderBytes = [ScalarSize]byte(order.FillBytes(make([]byte, ScalarSize)))
	halfOrder  = [ScalarSize]byte(new(big.Int).Rsh(order, 1).FillBytes(make([]byte, ScalarSize)))
)

// A Signature is r ‖ s, big-endian, s at most half the order: a message and a key
// have one.
type Signature [SignatureSize]byte

var errForm = errors.New("a signature of another form")

// NewKey makes a key of a private one of 32 bytes, which it does not keep. point is
// its public half, uncompressed.
func NewKey(private []byte) (key *ecdsa.PrivateKey, point [PointSize]byte, err error) {
	var b []byte
	erase.Do(func() { key, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), private) })
	if err == nil {
		b, err = key.PublicKey.Bytes()
	}
	if err != nil {
		return nil, point, errors.New("no private key of P-256")
	}
	return key, [PointSize]byte(b), nil
}

// A Signer signs with one key, which lies in a closure, where no verb prints it.
type Signer struct {
	sign   func(digest [32]byte) (Signature, error)
	public *ecdsa.PublicKey
}

// NewSigner makes a Signer of a private key of 32 bytes. point is its public half,
// uncompressed.
func NewSigner(private secret.Secret) (s *Signer, point [PointSize]byte, err error) {
	var key *ecdsa.PrivateKey
	private.Use(func(b []byte) { key, point, err = NewKey(b) })
	if err != nil {
		return nil, point, err
	}
	return &Signer{func(digest [32]byte) (Signature, error) { return Sign(key, digest) }, &key.PublicKey}, point, nil
}

// Sign is that of the package.
func (s *Signer) Sign(digest [32]byte) (Signature, error) { return s.sign(digest) }

// Public is the key that verifies.
func (s *Signer) Public() *ecdsa.PublicKey { return s.public }

// Sign is ECDSA over a SHA-256 digest with the nonce of RFC 6979: one digest has one
// signature. It erases nothing, as keys of the boot lie in memory anyway; a key of one
// request signs inside erase.Do. It does not verify what it signed, which would make a
// request with two proofs a tenth dearer: package keys does so for wallets' keys, and keys
// of a boot or of tokens can be replaced.
func Sign(key *ecdsa.PrivateKey, digest [32]byte) (Signature, error) {
	tally.SignaturesMade.Add(1)
	signature, err := key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return Signature{}, errors.New("a key of P-256 does not sign")
	}
	s, _, err := FromDER(signature)
	return s, err
}

// FromDER reads a signature in its one DER encoding, whose r and s must lie from 1 to below the order.
// negated tells that its s was the larger of the two that verify, and the other was taken.
func FromDER(b []byte) (s Signature, negated bool, err error) {
	var canonical [der.MaxSize]byte
	read, ok := der.Parse(b)
	if !ok || !inRange(&read.R) || !inRange(&read.S) || !bytes.Equal(read.Append(canonical[:0]), b) {
		return s, false, errForm
	}
	if negated = bytes.Compare(read.S[:], halfOrder[:]) > 0; negated {
		n := new(big.Int).SetBytes(read.S[:])
		n.Sub(order, n).FillBytes(read.S[:])
	}
	copy(s[copy(s[:], read.R[:]):], read.S[:])
	return s, negated, nil
}

// inRange reports whether n is from 1 to below the order.
func inRange(n *[ScalarSize]byte) bool {
	return *n != [ScalarSize]byte{} && bytes.Compare(n[:], orderBytes[:]) < 0
}

// DER is the signature in DER.
func (s *Signature) DER() []byte {
	return (&der.Signature{R: [ScalarSize]byte(s[:ScalarSize]), S: [ScalarSize]byte(s[ScalarSize:])}).Append(make([]byte, 0, der.MaxSize))
}

// Verify takes r ‖ s, 64 bytes, with s in either half.
func Verify(key *ecdsa.PublicKey, digest [32]byte, signature []byte) bool {
	tally.SignaturesVerified.Add(1)
	return len(signature) == SignatureSize &&
		ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:ScalarSize]), new(big.Int).SetBytes(signature[ScalarSize:]))
}

// Uncompressed is the point of 65 bytes that b, 65 bytes or 33, stands for. Hybrid forms,
// the point at infinity and points off the curve are none.
func Uncompressed(b []byte) (point [PointSize]byte, ok bool) {
	if len(b) == CompressedSize {
		x, y := elliptic.UnmarshalCompressed(elliptic.P256(), b)
		if x == nil {
			return point, false
		}
		point[0] = 4
		x.FillBytes(point[1:CompressedSize])
		y.FillBytes(point[CompressedSize:])
		return point, true
	}
	if _, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), b); err != nil {
		return point, false
	}
	return [PointSize]byte(b), true
}

// Compressed is a point of 65 bytes in 33.
func Compressed(point *[PointSize]byte) (short [CompressedSize]byte) {
	short[0] = 2 | point[PointSize-1]&1
	copy(short[1:], point[1:CompressedSize])
	return short
}

// ParsePublicKey reads a point of 65 bytes or 33.
func ParsePublicKey(b []byte) (*ecdsa.PublicKey, error) {
	point, ok := Uncompressed(b)
	if !ok {
		return nil, errors.New("not a point of P-256")
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point[:])
}
