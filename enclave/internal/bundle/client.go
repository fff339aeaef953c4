package bundle

import (
	"encoding/hex"
	"errors"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// MaxText bounds a client's bundle as text, in bytes.
const MaxText = 2*MaxCiphertext + 2*pointSize + 128

// ParseClient reads what a client encrypted to a target of ours:
// {"encappedPublic":HEX,"ciphertext":HEX}, strictly. The encapsulated key is
// uncompressed. The errors are *fault.Error about field.
func ParseClient(field, text string) (*Sealed, error) {
	if len(text) > MaxText {
		return nil, fault.Field(field, "invalid bundle: longer than %d bytes", MaxText)
	}
	var b struct {
		Encapped   string `json:"encappedPublic" rule:"required,hexadecimal"`
		Ciphertext string `json:"ciphertext" rule:"required,hexadecimal"`
	}
	if err := strictjson.Decode([]byte(text), &b); err != nil {
		return nil, fault.Field(field, `invalid bundle: must be {"encappedPublic":"<hex>","ciphertext":"<hex>"}`)
	}
	enc, err := hex.DecodeString(b.Encapped)
	if err != nil || len(enc) != pointSize {
		return nil, fault.Field(field, "invalid bundle: encappedPublic must be the hex of 65 bytes")
	}
	point, err := parsePoint(enc)
	if err != nil {
		return nil, fault.Field(field, "invalid bundle: encappedPublic is not a point of P-256")
	}
	ciphertext, err := hex.DecodeString(b.Ciphertext)
	if err != nil || len(ciphertext) <= tagSize || len(ciphertext) > MaxCiphertext {
		return nil, fault.Field(field, "invalid bundle: ciphertext must be the hex of %d to %d bytes", tagSize+1, MaxCiphertext)
	}
	return &Sealed{point, ciphertext}, nil
}

// Compact bundles: base58check of compressed encapsulated key and ciphertext.

// MaxCompact bounds a compact bundle as text, in bytes: reading base58 takes
// time in the square of it.
const MaxCompact = 2 << 10

var errCompact = errors.New("no compact bundle")

// SealCompact encrypts a secret as a credential bundle.
func SealCompact(to PublicKey, s secret.Secret) (string, error) {
	enc, ciphertext, err := to.seal(s)
	if err != nil {
		return "", err
	}
	b := append(compress(enc), ciphertext...)
	return encode58Check(b), nil
}

// ParseCompact reads a compact bundle.
func ParseCompact(text string) (*Sealed, error) {
	if len(text) > MaxCompact {
		return nil, errCompact
	}
	b, err := decode58Check(text)
	if err != nil || len(b) <= compressedSize+tagSize {
		return nil, errCompact
	}
	point, err := parsePoint(b[:compressedSize])
	if err != nil {
		return nil, errCompact
	}
	return &Sealed{point, b[compressedSize:]}, nil
}

// compress shortens an uncompressed point.
func compress(point []byte) []byte {
	return append([]byte{2 | point[pointSize-1]&1}, point[1:compressedSize]...)
}
