package login

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
)

// A PublicKey is a key of P-256 that signs tokens or messages. The zero value
// verifies nothing.
type PublicKey struct {
	key  *ecdsa.PublicKey
	text string
}

// ParsePublicKey reads the hex of a compressed point, in either case and without
// 0x. The errors are *fault.Error about field.
func ParsePublicKey(field, text string) (PublicKey, error) {
	var b [p256.CompressedSize]byte
	if len(text) != 2*len(b) {
		return PublicKey{}, fault.Field(field, "invalid public key: must be the hex of a compressed P-256 point, 66 digits")
	}
	if _, err := hex.Decode(b[:], []byte(text)); err != nil {
		return PublicKey{}, fault.Field(field, "invalid public key: must be the hex of a compressed P-256 point, 66 digits")
	}
	key, err := p256.ParsePublicKey(b[:])
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

// A Signer signs tokens of one kind. Its key lies in memory for the whole boot, so
// that signing erases nothing. It is safe for concurrent use.
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

// digest and doubleDigest are the two digests of tokens.
func digest(b []byte) [32]byte { return sha256.Sum256(b) }

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
