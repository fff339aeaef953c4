package boot

import (
	"crypto/ecdh"
	"errors"
	"fmt"

	"cloister/attestation"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/secret"
)

// An Opener opens what attestation.SealTo encrypted to one key. The function hides the key
// from printing.
type Opener func(info, box []byte) (secret.Secret, error)

// NewOpener makes an Opener of a P-256 private key. point is its public half,
// uncompressed.
func NewOpener(private secret.Secret) (open Opener, point []byte, err error) {
	var key *ecdh.PrivateKey
	private.Use(func(b []byte) { key, err = ecdh.P256().NewPrivateKey(b) })
	if err != nil {
		return nil, nil, errors.New("no private key of P-256")
	}
	return func(info, box []byte) (opened secret.Secret, err error) {
		erase.Do(func() {
			var plain []byte
			if plain, err = attestation.OpenBox(key, info, box); err == nil {
				opened, err = secret.From(plain)
			}
		})
		return opened, err
	}, key.PublicKey().Bytes(), nil
}

// HandTo encrypts the keyring to the next enclave's setup key. It opens under the same info
// only.
func (k *Keyring) HandTo(setupKeyHex string, info []byte) (box []byte, err error) {
	encoded, err := k.encode()
	if err != nil {
		return nil, err
	}
	defer encoded.Wipe()
	encoded.Use(func(b []byte) { box, err = attestation.SealTo(setupKeyHex, info, b) })
	return box, err
}

// TakeOver opens what HandTo made, with the Opener of the setup key.
func TakeOver(open Opener, info, box []byte) (*Keyring, error) {
	encoded, err := open(info, box)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return decode(encoded)
}
