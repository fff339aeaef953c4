// Package bundle makes and opens what crosses the border of the enclave encrypted to one
// party: exported secrets, the keys that a client encrypts an import to, what it encrypts
// to them, and credential bundles.
//
// The suite is HPKE (RFC 9180) in base mode, one message for each sender: DHKEM(P-256,
// HKDF-SHA256), HKDF-SHA256, AES-256-GCM, info `turnkey_hpke`, associated data the
// sender's encapsulated key and the receiver's public key, 65 bytes each. A receiving key
// is for one message, and forgotten when it has opened one.
//
// Secrets go in and come out as secret.Secret, and are handled inside erase.Do; what
// leaves as text is ciphertext or public. What the enclave signs has one form: the
// members in the published order, a deterministic signature with low s in its only DER
// encoding. Text from outside is bounded before it is parsed, and read strictly. An
// opened message is authentic as to its content and says nothing about who sent it.
//
// The standard library draws the sender's one-time key from the kernel, into whose pool
// package pid1 has mixed the security module's randomness.
package bundle

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"errors"
	"io"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/tally"
)

const tagSize = 16 // bytes behind a ciphertext

// MaxCiphertext bounds what is opened, in bytes: no secret is longer than
// secret.MaxSize.
const MaxCiphertext = secret.MaxSize + tagSize

var info = []byte("turnkey_hpke")

// A PublicKey is where something is encrypted to: a point of P-256.
type PublicKey struct{ point *ecdh.PublicKey }

// ParsePublicKey reads the hex of an uncompressed or compressed point, in either
// case and without 0x. The errors are *fault.Error about field.
func ParsePublicKey(field, text string) (PublicKey, error) {
	var b [p256.PointSize]byte
	n, err := 0, error(nil)
	if len(text) == 2*p256.PointSize || len(text) == 2*p256.CompressedSize {
		n, err = hex.Decode(b[:], []byte(text))
	}
	if n == 0 || err != nil {
		return PublicKey{}, fault.Field(field, "invalid public key: must be the hex of a P-256 point, 65 bytes or 33")
	}
	point, err := parsePoint(b[:n])
	if err != nil {
		return PublicKey{}, fault.Field(field, "invalid public key: not a point of P-256")
	}
	return PublicKey{point}, nil
}

// String is the compressed point in lower-case hex.
func (to PublicKey) String() string {
	short := p256.Compressed((*[p256.PointSize]byte)(to.point.Bytes()))
	return hex.EncodeToString(short[:])
}

// parsePoint reads a point of 65 or 33 bytes. The point at infinity is none.
func parsePoint(b []byte) (*ecdh.PublicKey, error) {
	key, err := p256.ParsePublicKey(b)
	if err != nil {
		return nil, err
	}
	return key.ECDH()
}

// seal encrypts a secret. enc is uncompressed.
func (to PublicKey) seal(s secret.Secret) (enc, ciphertext []byte, err error) {
	err = errors.New("nothing to seal")
	s.Use(func(plain []byte) {
		if len(plain) == 0 || to.point == nil {
			return
		}
		var pk hpke.PublicKey
		if pk, err = hpke.NewDHKEMPublicKey(to.point); err != nil {
			return
		}
		var sender *hpke.Sender
		if enc, sender, err = hpke.NewSender(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), info); err == nil {
			tally.AEADSeals.Add(1)
			ciphertext, err = sender.Seal(associatedData(enc, to.point), plain)
		}
	})
	return enc, ciphertext, err
}

func associatedData(enc []byte, receiver *ecdh.PublicKey) []byte {
	return append(append(make([]byte, 0, 2*p256.PointSize), enc...), receiver.Bytes()...)
}

// A Sealed is one encrypted message, not opened yet.
type Sealed struct {
	enc        *ecdh.PublicKey
	ciphertext []byte
}

// ErrOpen is all that is said of a message that does not open with a key.
var ErrOpen = errors.New("bundle does not open with this key")

// Open decrypts a message with the private key that it was encrypted to. ErrOpen means
// another key or altered bytes.
func (m *Sealed) Open(private secret.Secret) (secret.Secret, error) {
	var plain []byte
	err := errPrivate
	private.Use(func(b []byte) {
		key, kerr := ecdh.P256().NewPrivateKey(b)
		if kerr != nil {
			return
		}
		k, kerr := hpke.NewDHKEMPrivateKey(key)
		if kerr != nil {
			return
		}
		err = ErrOpen
		enc := m.enc.Bytes()
		r, rerr := hpke.NewRecipient(enc, k, hpke.HKDFSHA256(), hpke.AES256GCM(), info)
		if rerr != nil {
			return
		}
		tally.AEADOpens.Add(1)
		if p, oerr := r.Open(associatedData(enc, key.PublicKey()), m.ciphertext); oerr == nil {
			plain, err = p, nil
		}
	})
	if err != nil {
		return secret.Secret{}, err
	}
	return secret.From(plain) // wipes plain; refuses an empty message
}

var errPrivate = errors.New("no private key of P-256")

// drawAttempts bounds the scalars drawn for one key. Each lies outside of the order with a
// chance of 2^-32; after so many the source of randomness is broken.
const drawAttempts = 4

// NewPrivateKey draws a private key to receive one message with.
func NewPrivateKey(rand io.Reader) (secret.Secret, error) {
	for range drawAttempts {
		s, err := secret.New(rand, p256.ScalarSize)
		if err != nil {
			return secret.Secret{}, err
		}
		if _, err := publicOf(s); err == nil {
			return s, nil
		}
		s.Wipe()
	}
	return secret.Secret{}, errors.New("randomness gives no private key")
}

// publicOf is the public half of a private key of 32 bytes.
func publicOf(private secret.Secret) (p *ecdh.PublicKey, err error) {
	private.Use(func(b []byte) {
		var k *ecdh.PrivateKey
		if k, err = ecdh.P256().NewPrivateKey(b); err == nil {
			p = k.PublicKey()
		}
	})
	if err != nil {
		return nil, errPrivate
	}
	return p, nil
}
