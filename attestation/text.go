package attestation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// parseHex takes lower-case hex only: two spellings of one value would make
// string comparisons, which the published clients use, disagree with ours.
func parseHex(name, s string, size int) ([]byte, error) {
	if err := checkHex(name, s, size); err != nil {
		return nil, err
	}
	return hex.DecodeString(s)
}

// checkHex is parseHex of what only must have the form.
func checkHex(name, s string, size int) error {
	if len(s) != 2*size {
		return fmt.Errorf("%s is not %d bytes of hex", name, size)
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("%s is not lower-case hex", name)
		}
	}
	return nil
}

// parseBase64 takes the standard alphabet with padding and no line breaks; max
// bounds the decoded bytes.
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

// parseDecimal takes 0 to max without sign or leading zeros.
func parseDecimal(name, s string, max uint64) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s || n > max {
		return 0, fmt.Errorf("%s is not a decimal number in range", name)
	}
	return n, nil
}

// checkText wants min to MaxText bytes of UTF-8 without control characters.
func checkText(name, s string, min int) error {
	if len(s) < min || len(s) > MaxText || !utf8.ValidString(s) {
		return fmt.Errorf("%s is missing, too long or not UTF-8", name)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s holds a control character", name)
		}
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

// parsePair reads encryption key ‖ signing key in hex and gives the signing key.
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

// checkCompressed wants a 33-byte P-256 point in hex.
func checkCompressed(name, s string) error {
	raw, err := parseHex(name, s, 33)
	if err != nil {
		return err
	}
	if x, _ := elliptic.UnmarshalCompressed(elliptic.P256(), raw); x == nil {
		return fmt.Errorf("%s is not a compressed P-256 point", name)
	}
	return nil
}
