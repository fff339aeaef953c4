package boot

import (
	"bytes"
	"crypto/ecdh"
	"fmt"

	"cloister/attestation"
	"cloister/enclave/internal/erase"
)

// HandTo encrypts the keyring to the setup key of the enclave that comes after
// this one. It opens under the same info only.
func (k *Keyring) HandTo(setupKeyHex string, info []byte) (box []byte, err error) {
	// The encoder keeps buffers of its own for later; this one is wiped.
	plain := bytes.NewBuffer(make([]byte, 0, 1024))
	defer func() { clear(plain.Bytes()) }()
	if err := encoding.MarshalToBuffer(k, plain); err != nil {
		return nil, fmt.Errorf("encoding the keyring: %w", err)
	}
	erase.Do(func() { box, err = attestation.SealTo(setupKeyHex, info, plain.Bytes()) })
	return box, err
}

// TakeOver opens what HandTo made for the setup key of which this is the
// encryption half.
func TakeOver(key *ecdh.PrivateKey, info, box []byte) (*Keyring, error) {
	var plain []byte
	var err error
	erase.Do(func() { plain, err = attestation.OpenBox(key, info, box) })
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return decodeKeyring(plain)
}
