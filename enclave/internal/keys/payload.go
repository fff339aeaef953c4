package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

var errTooLarge = fault.New(fault.InvalidArgument, "payload too large")

// DecodePayload decodes the payload of a signing request into the bytes to hash or sign.
// PAYLOAD_ENCODING_HEXADECIMAL is digits of either case, with or without a leading 0x,
// PAYLOAD_ENCODING_TEXT_UTF8 is the text's own bytes. The packages of chains decode the other
// encodings. The errors are *fault.Error, InvalidArgument, `invalid payload encoding`.
func DecodePayload(encoding, payload string) ([]byte, error) {
	switch encoding {
	case "PAYLOAD_ENCODING_HEXADECIMAL":
		digits := strings.TrimPrefix(payload, "0x")
		if len(digits) > 2*MaxPayload {
			return nil, errTooLarge
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			return nil, fault.New(fault.InvalidArgument, "invalid payload encoding: payload is not hexadecimal")
		}
		return b, nil
	case "PAYLOAD_ENCODING_TEXT_UTF8":
		if len(payload) > MaxPayload {
			return nil, errTooLarge
		}
		if !utf8.ValidString(payload) {
			return nil, fault.New(fault.InvalidArgument, "invalid payload encoding: payload is not UTF-8")
		}
		return []byte(payload), nil
	}
	return nil, fault.New(fault.InvalidArgument, "invalid payload encoding")
}

// HashFunction is the hash function applied to a payload before it is signed. The
// zero value is invalid.
type HashFunction uint8

// The hash functions of the public interface.
const (
	HashNoOp          HashFunction = 1 // the payload is the digest, 32 bytes
	HashSHA256        HashFunction = 2
	HashKeccak256     HashFunction = 3
	HashNotApplicable HashFunction = 4 // ed25519 signs the payload itself
)

const hashPrefix = "HASH_FUNCTION_"

var hashTexts = [...]string{HashNoOp: "NO_OP", HashSHA256: "SHA256", HashKeccak256: "KECCAK256", HashNotApplicable: "NOT_APPLICABLE"}

// String is the name in the public interface, such as HASH_FUNCTION_SHA256.
func (h HashFunction) String() string {
	if HashNoOp <= h && h <= HashNotApplicable {
		return hashPrefix + hashTexts[h]
	}
	return fmt.Sprintf("hash-function-%d", uint8(h))
}

// ParseHashFunction parses the exact name in the public interface. The error is
// a *fault.Error: InvalidArgument, `invalid hash function`.
func ParseHashFunction(text string) (HashFunction, error) {
	for h := HashNoOp; h <= HashNotApplicable; h++ {
		if text == hashPrefix+hashTexts[h] {
			return h, nil
		}
	}
	return 0, fault.New(fault.InvalidArgument, "invalid hash function")
}

// Digest returns the bytes that a key on curve c signs for a payload: 32 bytes for
// ECDSA, the payload itself for ed25519. The errors are *fault.Error,
// InvalidArgument: `invalid hash function` for one that the curve does not allow,
// `expected a 32-bytes-long digest` for another length under NO_OP, `invalid curve`.
func Digest(c chain.Curve, h HashFunction, payload []byte) ([]byte, error) {
	switch {
	case schemes[c] == nil:
		return nil, fault.New(fault.InvalidArgument, "invalid curve")
	case len(payload) > MaxPayload:
		return nil, errTooLarge
	case (c == chain.Ed25519) != (h == HashNotApplicable):
		return nil, fault.New(fault.InvalidArgument, "invalid hash function: %v does not go with %v", h, c)
	case h == HashNoOp && len(payload) != 32:
		return nil, fault.New(fault.InvalidArgument, "expected a 32-bytes-long digest, got %d bytes", len(payload))
	case h == HashNoOp, h == HashNotApplicable:
		return payload, nil
	case h == HashSHA256:
		sum := sha256.Sum256(payload)
		return sum[:], nil
	case h == HashKeccak256:
		k := sha3.NewLegacyKeccak256()
		k.Write(payload)
		return k.Sum(nil), nil
	}
	return nil, fault.New(fault.InvalidArgument, "invalid hash function")
}
