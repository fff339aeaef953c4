package login

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
)

// A PublicKey is a P-256 key that verifies tokens or messages. The zero value verifies nothing.
type PublicKey struct {
	key  *ecdsa.PublicKey
	text string
}

// ParsePublicKey reads the hex of a compressed point, in either case and without 0x. Errors are
// *fault.Error about field.
func ParsePublicKey(field, text string) (PublicKey, error) {
	var b []byte
	err := hex.ErrLength
	if len(text) == 2*p256.CompressedSize {
		b, err = hex.DecodeString(text)
	}
	if err != nil {
		return PublicKey{}, fault.Field(field, "invalid public key: must be the hex of a compressed P-256 point, 66 digits")
	}
	key, err := p256.ParsePublicKey(b)
	if err != nil {
		return PublicKey{}, fault.Field(field, "invalid public key: not a point of P-256")
	}
	return PublicKey{key, strings.ToLower(text)}, nil
}

// String is the compressed point in lower-case hex.
func (p PublicKey) String() string { return p.text }

// verify takes r and s, 32 bytes each, s in either half.
func (p PublicKey) verify(digest [32]byte, signature []byte) bool {
	return p.key != nil && p256.Verify(p.key, digest, signature)
}

// A Signer signs tokens of one kind. Its key lies in memory for the whole boot, so signing erases
// nothing. It is safe for concurrent use.
type Signer struct {
	key    *p256.Signer
	public PublicKey
}

// NewSigner makes a Signer from a P-256 private key of 32 bytes.
func NewSigner(private secret.Secret) (*Signer, error) {
	key, point, err := p256.NewSigner(private)
	if err != nil {
		return nil, err
	}
	short := p256.Compressed(&point)
	return &Signer{key, PublicKey{key.Public(), hex.EncodeToString(short[:])}}, nil
}

// Public is the key that verifies what s signs.
func (s *Signer) Public() PublicKey { return s.public }

// doubleDigest is the digest of sessions' tokens; other tokens have sha256.Sum256.
func doubleDigest(b []byte) [32]byte {
	sum := sha256.Sum256(b)
	return sha256.Sum256(sum[:])
}

// token signs a payload behind a header, both JSON.
func (s *Signer) token(header string, p payload, digest func([]byte) [32]byte) (string, error) {
	text := base64URL.AppendEncode(nil, []byte(header))
	text = base64URL.AppendEncode(append(text, '.'), append(p, '}'))
	if len(text)+1+base64URL.EncodedLen(p256.SignatureSize) > MaxToken {
		return "", errors.New("a token too long")
	}
	signature, err := s.key.Sign(digest(text))
	if err != nil {
		return "", err
	}
	return string(base64URL.AppendEncode(append(text, '.'), signature[:])), nil
}

// payload is JSON under construction, without its closing brace. In base64url it has neither -
// nor _: among ASCII only > ? ~ and DEL can produce these letters, and they are escaped, like
// everything that is not ASCII.
type payload []byte

func (p payload) name(name string) payload {
	before := `,"`
	if len(p) == 0 {
		before = `{"`
	}
	return append(append(append(p, before...), name...), `":`...)
}

func (p payload) number(name string, n uint64) payload {
	return strconv.AppendUint(p.name(name), n, 10)
}

// text adds a string. Invalid UTF-8 becomes U+FFFD.
func (p payload) text(name, s string) payload {
	p = append(p.name(name), '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			p = append(p, '\\', byte(r))
		case r < ' ' || r == '>' || r == '?' || r >= '~' && r < 0x10000:
			p = p.unit(uint16(r))
		case r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			p = p.unit(uint16(high)).unit(uint16(low))
		default:
			p = utf8.AppendRune(p, r)
		}
	}
	return append(p, '"')
}

func (p payload) unit(u uint16) payload {
	const digits = "0123456789abcdef"
	return append(p, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}
