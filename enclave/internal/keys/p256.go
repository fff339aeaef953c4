package keys

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"math/bits"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/p256"
)

// orderP256 is the order of P-256, least significant word first.
var orderP256 = [4]uint64{0xf3b9cac2fc632551, 0xbce6faada7179e84, 0xffffffffffffffff, 0xffffffff00000000}

var schemeP256 = scheme{
	master: "Nist256p1 seed",
	accept: acceptP256,
	public: func(out *[33]byte, key *[32]byte) {
		if p, err := pointP256(key); err == nil {
			out[0] = 2 | p[64]&1
			copy(out[1:], p[1:33])
		}
	},
	add:   addP256,
	retry: true,
}

func acceptP256(b *[32]byte) bool {
	w := words(b)
	_, below := less(w)
	return below == 1 && w[0]|w[1]|w[2]|w[3] != 0
}

// words reads a big-endian number.
func words(b *[32]byte) (w [4]uint64) {
	for i := range w {
		w[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	return w
}

// less subtracts the order from w; below is 1 when w was less.
func less(w [4]uint64) (rest [4]uint64, below uint64) {
	for i := range w {
		rest[i], below = bits.Sub64(w[i], orderP256[i], below)
	}
	return rest, below
}

// addP256 adds modulo the order in constant time but for its refusals, which
// have a chance of 2^-32. It is the one sum that derivation needs and that the
// standard library does not offer.
func addP256(key, tweak *[32]byte) bool {
	k, t := words(key), words(tweak)
	if _, below := less(t); below == 0 {
		return false
	}
	var sum [4]uint64
	var carry uint64
	for i := range sum {
		sum[i], carry = bits.Add64(k[i], t[i], carry)
	}
	rest, below := less(sum)
	keep := -(below &^ carry) // all ones when the sum was below the order
	var zero uint64
	for i := range sum {
		sum[i] = sum[i]&keep | rest[i]&^keep
		zero |= sum[i]
	}
	if zero == 0 {
		return false
	}
	for i := range sum {
		binary.BigEndian.PutUint64(key[24-8*i:], sum[i])
	}
	return true
}

// pointP256 multiplies the base point: 65 bytes, in constant time.
func pointP256(scalar *[32]byte) ([]byte, error) {
	k, err := ecdh.P256().NewPrivateKey(scalar[:])
	if err != nil {
		return nil, errPrivateKey
	}
	return k.PublicKey().Bytes(), nil
}

// A keyP256 signs with crypto/ecdsa, which keeps the nonce to itself. For the
// recovery id the nonce is made a second time and multiplied by crypto/ecdh.
type keyP256 struct {
	key *ecdsa.PrivateKey
	raw [32]byte
}

func newP256(point *[65]byte, raw *[32]byte) (signer, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw[:])
	if err != nil {
		return nil, errPrivateKey
	}
	b, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, errPrivateKey
	}
	copy(point[:], b)
	return &keyP256{key: key, raw: *raw}, nil
}

var errSignature = errors.New("a signature of impossible form")

func (k *keyP256) sign(out *Signature, _ chain.Scheme, digest []byte) error {
	var der [80]byte // r and s are at most 33 bytes each
	var x [32]byte
	var v byte
	n := 0
	var err error
	do(func() {
		var sig []byte
		if sig, err = k.key.Sign(nil, digest, crypto.SHA256); err == nil {
			n = copy(der[:], sig)
			err = k.nonce(&x, &v, (*[32]byte)(digest))
		}
	})
	if err != nil {
		return errSignature
	}
	sig, negated, err := p256.FromDER(der[:n])
	if err != nil {
		return errSignature
	}
	copy(out.R[:], sig[:p256.ScalarSize])
	copy(out.S[:], sig[p256.ScalarSize:])
	// The point's x is r, unless it lies at or above the order: then another
	// recovery id would be needed, which the interface does not have.
	if subtle.ConstantTimeCompare(x[:], out.R[:]) != 1 {
		return errSignature
	}
	if negated {
		v ^= 1
	}
	out.V = v
	return nil
}

// nonce computes x and the parity of y of the nonce's point.
func (k *keyP256) nonce(x *[32]byte, v *byte, digest *[32]byte) error {
	z := words(digest)
	if rest, below := less(z); below == 0 {
		z = rest
	}
	var reduced, candidate [32]byte
	for i := range z {
		binary.BigEndian.PutUint64(reduced[24-8*i:], z[i])
	}
	g := newNonces(&k.raw, &reduced)
	for g.next(&candidate); !acceptP256(&candidate); g.next(&candidate) {
		g.refuse()
	}
	point, err := pointP256(&candidate)
	if err == nil {
		copy(x[:], point[1:33])
		*v = point[64] & 1
	}
	g = nonces{}
	clear(candidate[:])
	return err
}

func (k *keyP256) bytes(out *[32]byte) { *out = k.raw }

func (k *keyP256) wipe() {
	clear(k.raw[:])
	//lint:ignore SA1019 the words are overwritten and never used again
	clear(k.key.D.Bits())
	k.key = nil
}
