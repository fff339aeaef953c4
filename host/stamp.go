package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A keyPair is an API key as it stands in credentials.json, in hexadecimal.
type keyPair struct {
	PublicKey  string `json:"publicKey"`
	PrivateKey string `json:"privateKey"`
}

// A stamper signs request bodies with one API key.
type stamper struct {
	public string
	scheme string
	curve  string // as in API key parameters
	sign   func(body []byte) (string, error)
}

// parseKey reads a private key: 64 hexadecimal digits for P-256, 128 (seed and
// public key) or 64 with the ending ":ed25519" for Ed25519. The ending ":p256"
// may stand for the other. Errors hold nothing of the key.
func parseKey(text string, rand io.Reader) (*stamper, error) {
	digits, curve, _ := strings.Cut(strings.TrimSpace(text), ":")
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, errors.New("private key: want hexadecimal digits")
	}
	defer clear(b)
	switch {
	case curve == "ed25519" && len(b) == ed25519.SeedSize, (curve == "ed25519" || curve == "") && len(b) == ed25519.PrivateKeySize:
		key := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
		if len(b) == ed25519.PrivateKeySize && !key.Equal(ed25519.PrivateKey(b)) {
			return nil, errors.New("private key: the halves do not belong together")
		}
		return ed25519Stamper(key), nil
	case (curve == "p256" || curve == "") && len(b) == 32:
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), b)
		if err != nil {
			return nil, errors.New("private key: out of range")
		}
		return p256Stamper(key, rand)
	}
	return nil, errors.New("private key: want 64 digits (P-256), or 64 digits and :ed25519")
}

func p256Stamper(key *ecdsa.PrivateKey, rand io.Reader) (*stamper, error) {
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, errors.New("private key: no public key")
	}
	compressed := append([]byte{2 | point[64]&1}, point[1:33]...)
	return &stamper{
		public: hex.EncodeToString(compressed),
		scheme: "SIGNATURE_SCHEME_TK_API_P256", curve: "API_KEY_CURVE_P256",
		sign: func(body []byte) (string, error) {
			digest := sha256.Sum256(body)
			sig, err := ecdsa.SignASN1(rand, key, digest[:])
			return hex.EncodeToString(sig), err
		},
	}, nil
}

func ed25519Stamper(key ed25519.PrivateKey) *stamper {
	return &stamper{
		public: hex.EncodeToString(key.Public().(ed25519.PublicKey)),
		scheme: "SIGNATURE_SCHEME_TK_API_ED25519", curve: "API_KEY_CURVE_ED25519",
		sign: func(body []byte) (string, error) { return hex.EncodeToString(ed25519.Sign(key, body)), nil },
	}
}

// stamp is the value of X-Stamp for a body.
func (s *stamper) stamp(body []byte) (string, error) {
	sig, err := s.sign(body)
	if err != nil {
		return "", fmt.Errorf("stamping: %w", err)
	}
	b, err := json.Marshal(struct {
		PublicKey string `json:"publicKey"`
		Scheme    string `json:"scheme"`
		Signature string `json:"signature"`
	}{s.public, s.scheme, sig})
	if err != nil {
		return "", fmt.Errorf("stamping: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// newKey makes a P-256 API key.
func newKey(rand io.Reader) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand)
	if err != nil {
		return keyPair{}, err
	}
	b, err := key.Bytes()
	if err != nil {
		return keyPair{}, err
	}
	s, err := p256Stamper(key, rand)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{s.public, hex.EncodeToString(b)}, nil
}
