package keys

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"

	"filippo.io/bigmod"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/p256"
)

// orderP256 is the order of P-256. Derivation adds modulo it in constant time, with
// a copy of the standard library's internal arithmetic.
var orderP256 = func() *bigmod.Modulus {
	m, err := bigmod.NewModulus(elliptic.P256().Params().N.Bytes())
	if err != nil {
		panic(err)
	}
	return m
}()

var schemeP256 = scheme{
	master: "Nist256p1 seed",
	accept: func(b *[32]byte) bool {
		n, err := bigmod.NewNat().SetBytes(b[:], orderP256)
		return err == nil && n.IsZero() == 0
	},
	public: func(out *[33]byte, key *[32]byte) {
		if k, err := ecdh.P256().NewPrivateKey(key[:]); err == nil {
			*out = p256.Compressed((*[65]byte)(k.PublicKey().Bytes()))
		}
	},
	add:       addP256,
	retry:     true,
	parse:     newP256,
	footprint: 1280,
}

func addP256(key, tweak *[32]byte) bool {
	k, err := bigmod.NewNat().SetBytes(key[:], orderP256)
	if err != nil {
		return false
	}
	t, err := bigmod.NewNat().SetBytes(tweak[:], orderP256)
	if err != nil || k.Add(t, orderP256).IsZero() == 1 {
		return false
	}
	copy(key[:], k.Bytes(orderP256))
	return true
}

// A keyP256 signs with crypto/ecdsa, in constant time.
type keyP256 struct {
	verified
	key *ecdsa.PrivateKey
}

func newP256(point *[65]byte, raw *[32]byte) (curveKey, error) {
	key, p, err := p256.NewKey(raw[:])
	if err != nil {
		return nil, errPrivateKey
	}
	*point = p
	return &keyP256{key: key}, nil
}

func (k *keyP256) sign(out *Signature, _ chain.PublicKey, _ chain.Scheme, digest []byte) error {
	var sig p256.Signature
	var err error
	erase.Do(func() { sig, err = p256.Sign(k.key, [32]byte(digest)) })
	if err != nil {
		return errSignature
	}
	v, ok := p256.RecoveryID(&k.key.PublicKey, [32]byte(digest), &sig)
	if !ok {
		return errSignature
	}
	copy(out.R[:], sig[:p256.ScalarSize])
	copy(out.S[:], sig[p256.ScalarSize:])
	out.V = v
	return nil
}

func (k *keyP256) bytes(out *[32]byte) {
	if b, err := k.key.Bytes(); err == nil {
		copy(out[:], b)
	}
}

func (k *keyP256) wipe() {
	//lint:ignore SA1019 the words are overwritten and never used again
	clear(k.key.D.Bits())
	k.key = nil
}
