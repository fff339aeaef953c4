package login

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"

	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/fault"
)

// Sizes in bytes: of r, s and a coordinate, of a signature that is r and s, and of
// a point in its two forms.
const (
	scalarSize     = 32
	signatureSize  = 2 * scalarSize
	pointSize      = 65
	compressedSize = 33
	maxDER         = 72
)

var (
	order     = elliptic.P256().Params().N
	halfOrder = new(big.Int).Rsh(order, 1)
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
	var b [compressedSize]byte
	if len(text) != 2*compressedSize {
		return PublicKey{}, fault.Field(field, "invalid public key: must be the hex of a compressed P-256 point, 66 digits")
	}
	if _, err := hex.Decode(b[:], []byte(text)); err != nil {
		return PublicKey{}, fault.Field(field, "invalid public key: must be the hex of a compressed P-256 point, 66 digits")
	}
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), b[:])
	if x == nil {
		return PublicKey{}, fault.Field(field, "invalid public key: not a point of P-256")
	}
	var long [pointSize]byte
	long[0] = 4
	x.FillBytes(long[1 : 1+scalarSize])
	y.FillBytes(long[1+scalarSize:])
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), long[:])
	if err != nil {
		return PublicKey{}, fault.Field(field, "invalid public key: not a point of P-256")
	}
	return PublicKey{key, strings.ToLower(text)}, nil
}

// String is the compressed point in lower-case hex.
func (p PublicKey) String() string { return p.text }

// verify takes r and s, 32 bytes each, s in either half.
func (p PublicKey) verify(digest [32]byte, signature []byte) bool {
	if p.key == nil || len(signature) != signatureSize {
		return false
	}
	r := new(big.Int).SetBytes(signature[:scalarSize])
	s := new(big.Int).SetBytes(signature[scalarSize:])
	return ecdsa.Verify(p.key, digest[:], r, s)
}

// A Signer signs tokens of one kind. It is safe for concurrent use.
type Signer struct {
	key    *ecdsa.PrivateKey
	public PublicKey
}

// NewSigner makes a Signer from a P-256 private key of 32 bytes, which it does not
// keep.
func NewSigner(private []byte) (*Signer, error) {
	s := new(Signer)
	var err error
	erase.Do(func() { s.key, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), private) })
	if err != nil {
		return nil, errors.New("no private key of P-256")
	}
	b, err := s.key.PublicKey.Bytes()
	if err != nil {
		return nil, errors.New("no private key of P-256")
	}
	s.public = PublicKey{&s.key.PublicKey, hex.EncodeToString(append([]byte{2 | b[pointSize-1]&1}, b[1:compressedSize]...))}
	return s, nil
}

// Public is the key that verifies what s signs.
func (s *Signer) Public() PublicKey { return s.public }

// sign answers r and s, s low. The nonce is that of RFC 6979: one digest has one
// signature.
func (s *Signer) sign(digest [32]byte) ([]byte, error) {
	var der []byte
	var err error
	erase.Do(func() { der, err = s.key.Sign(nil, digest[:], crypto.SHA256) })
	if err != nil {
		return nil, errors.New("a token could not be signed")
	}
	var sig struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &sig); err != nil || len(rest) > 0 {
		return nil, errors.New("a signature of another form")
	}
	if sig.S.Cmp(halfOrder) > 0 {
		sig.S.Sub(order, sig.S)
	}
	out := make([]byte, signatureSize)
	sig.R.FillBytes(out[:scalarSize])
	sig.S.FillBytes(out[scalarSize:])
	return out, nil
}

// once and twice are the two digests of tokens.
func once(b []byte) [32]byte { return sha256.Sum256(b) }

func twice(b []byte) [32]byte {
	sum := sha256.Sum256(b)
	return sha256.Sum256(sum[:])
}

// token signs a payload behind a header, both JSON.
func (s *Signer) token(header string, p payload, digest func([]byte) [32]byte) (string, error) {
	text := base64URL.AppendEncode(nil, []byte(header))
	text = base64URL.AppendEncode(append(text, '.'), append(p, '}'))
	if len(text)+1+base64URL.EncodedLen(signatureSize) > MaxToken {
		return "", errors.New("a token too long")
	}
	signature, err := s.sign(digest(text))
	if err != nil {
		return "", err
	}
	return string(base64URL.AppendEncode(append(text, '.'), signature)), nil
}
