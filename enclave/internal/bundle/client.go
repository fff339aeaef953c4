package bundle

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// MaxText bounds a client's bundle as text, in bytes.
const MaxText = 2*MaxCiphertext + 2*p256.PointSize + 128

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
	if err != nil || len(enc) != p256.PointSize {
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
	short := p256.Compressed((*[p256.PointSize]byte)(enc))
	return encode58Check(append(short[:], ciphertext...)), nil
}

// ParseCompact reads a compact bundle.
func ParseCompact(text string) (*Sealed, error) {
	if len(text) > MaxCompact {
		return nil, errCompact
	}
	b, err := decode58Check(text)
	if err != nil || len(b) <= p256.CompressedSize+tagSize {
		return nil, errCompact
	}
	point, err := parsePoint(b[:p256.CompressedSize])
	if err != nil {
		return nil, errCompact
	}
	return &Sealed{point, b[p256.CompressedSize:]}, nil
}

// checkSize is how many bytes of the double SHA-256 stand behind what is encoded.
const checkSize = 4

func checksum(b []byte) []byte {
	sum := sha256.Sum256(b)
	sum = sha256.Sum256(sum[:])
	return sum[:checkSize]
}

// encode58Check writes base58 with a checksum, in the alphabet of Bitcoin.
func encode58Check(b []byte) string {
	return base58.Encode(append(b[:len(b):len(b)], checksum(b)...))
}

func decode58Check(text string) ([]byte, error) {
	b, err := base58.Decode(text)
	if err != nil || len(b) < checkSize {
		return nil, errCompact
	}
	b, sum := b[:len(b)-checkSize], b[len(b)-checkSize:]
	if subtle.ConstantTimeCompare(sum, checksum(b)) != 1 {
		return nil, errCompact
	}
	return b, nil
}
