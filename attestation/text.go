package attestation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parseHex decodes lower-case hex only: two spellings of one value would make
// string comparisons, which the published clients use, disagree with ours.
func parseHex(name, s string, size int) ([]byte, error) {
	if err := checkHex(name, s, size); err != nil {
		return nil, err
	}
	return hex.DecodeString(s)
}

// checkHex checks the form that parseHex requires.
func checkHex(name, s string, size int) error {
	if len(s) != 2*size {
		return fmt.Errorf("%s is not %d bytes of hex", name, size)
	}
	if strings.Trim(s, "0123456789abcdef") != "" {
		return fmt.Errorf("%s is not lower-case hex", name)
	}
	return nil
}

// checkOptionalHash requires 32 bytes of hex, or the empty text.
func checkOptionalHash(name, s string) error {
	if s == "" {
		return nil
	}
	return checkHex(name, s, 32)
}

// parseBase64 decodes the standard alphabet with padding and no line breaks; max bounds the decoded bytes.
func parseBase64(name, s string, max int) ([]byte, error) {
	if len(s) > base64.StdEncoding.EncodedLen(max) {
		return nil, fmt.Errorf("%s is too long", name)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || base64.StdEncoding.EncodeToString(b) != s {
		return nil, fmt.Errorf("%s is not standard base64", name)
	}
	return b, nil
}

// parseDecimal reads a number from 0 to max without sign or leading zeros.
func parseDecimal(name, s string, max uint64) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s || n > max {
		return 0, fmt.Errorf("%s is not a decimal number in range", name)
	}
	return n, nil
}

// checkDecimal checks the form that parseDecimal requires.
func checkDecimal(name, s string, max uint64) error {
	_, err := parseDecimal(name, s, max)
	return err
}

// checkText requires min to MaxText bytes of UTF-8 without control characters.
func checkText(name, s string, min int) error {
	if len(s) < min || len(s) > MaxText || !utf8.ValidString(s) {
		return fmt.Errorf("%s is missing, too long or not UTF-8", name)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s holds a control character", name)
	}
	return nil
}

// parsePoint reads an uncompressed P-256 point and refuses one off the curve.
func parsePoint(b []byte) (*ecdsa.PublicKey, error) {
	pub, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), b)
	if err != nil {
		return nil, errors.New("not an uncompressed P-256 point")
	}
	return pub, nil
}

// parsePair reads encryption key ‖ signing key in hex and returns the signing key.
func parsePair(name, s string) (*ecdsa.PublicKey, error) {
	raw, err := parseHex(name, s, bootKeySize)
	if err != nil {
		return nil, err
	}
	if _, err := parsePoint(raw[:pointSize]); err != nil {
		return nil, fmt.Errorf("%s, encryption half: %w", name, err)
	}
	pub, err := parsePoint(raw[pointSize:])
	if err != nil {
		return nil, fmt.Errorf("%s, signing half: %w", name, err)
	}
	return pub, nil
}

// checkPair checks the form that parsePair requires.
func checkPair(name, s string) error {
	_, err := parsePair(name, s)
	return err
}

// decompress reads a 33-byte P-256 point in hex and returns its uncompressed form.
func decompress(name, s string) ([]byte, error) {
	raw, err := parseHex(name, s, 33)
	if err != nil {
		return nil, err
	}
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), raw)
	if x == nil {
		return nil, fmt.Errorf("%s is not a compressed P-256 point", name)
	}
	point := make([]byte, pointSize)
	point[0] = 4
	x.FillBytes(point[1:33])
	y.FillBytes(point[33:])
	return point, nil
}

// checkCompressed checks the form that decompress requires.
func checkCompressed(name, s string) error {
	_, err := decompress(name, s)
	return err
}

// hasSigned verifies a signature, r ‖ s in 64 bytes, over the SHA-256 of a text.
func hasSigned(key *ecdsa.PublicKey, text, signature []byte) bool {
	digest := sha256.Sum256(text)
	return ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
}
