// Package request is a client of the public interface: it stamps requests with an
// API key and sends them.
//
//	key, err := request.ParseKey(privateKey)
//	api := &request.API{URL: "https://api.example.com", OrganizationID: id, Key: key}
//	err = api.Query(ctx, "whoami", nil, &who)
//	activity, err := api.Submit(ctx, "ACTIVITY_TYPE_CREATE_WALLET_V2", parameters)
//	err = activity.Into(&wallet)
//
// It does not verify replies. To accept only replies that an attested enclave has
// signed, give API.HTTP a Transport of package attestation/client.
package request

import (
	"crypto"
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
	"net/http"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secp256k1ecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// HeaderStamp is the request header with the stamp of an API key.
const HeaderStamp = "X-Stamp"

// A KeyPair is an API key as files have it, in hexadecimal.
type KeyPair struct {
	PublicKey  string `json:"publicKey"`
	PrivateKey string `json:"privateKey"` // as ParseKey reads it
}

// A Key is the private half of an API key, which signs requests. It prints as its public
// half. It is safe for concurrent use.
type Key struct {
	public, scheme, curve string
	sign                  func(body []byte) ([]byte, error)
}

// NewKeyPair generates a P-256 API key with randomness from rand.
func NewKeyPair(rand io.Reader) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand)
	if err != nil {
		return KeyPair{}, fmt.Errorf("making a key: %w", err)
	}
	b, err := key.Bytes()
	if err != nil {
		return KeyPair{}, fmt.Errorf("making a key: %w", err)
	}
	defer clear(b)
	k, err := p256Key(key)
	if err != nil {
		return KeyPair{}, err
	}
	return KeyPair{k.public, hex.EncodeToString(b)}, nil
}

// ParseKey reads a private key in hexadecimal: 64 digits for P-256, with or without the suffix
// ":p256"; 64 digits and the suffix ":secp256k1" or ":ed25519" for these curves; or 128 digits, seed
// and public key, for Ed25519. Its errors hold nothing of the key.
func ParseKey(private string) (*Key, error) {
	digits, curve, _ := strings.Cut(strings.TrimSpace(private), ":")
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
		return &Key{hex.EncodeToString(key[ed25519.SeedSize:]), "SIGNATURE_SCHEME_TK_API_ED25519", "API_KEY_CURVE_ED25519",
			func(body []byte) ([]byte, error) { return ed25519.Sign(key, body), nil }}, nil
	case curve == "secp256k1" && len(b) == 32:
		key := new(secp256k1.PrivateKey)
		if overflows := key.Key.SetByteSlice(b); overflows || key.Key.IsZero() {
			return nil, errors.New("private key: out of range")
		}
		return &Key{hex.EncodeToString(key.PubKey().SerializeCompressed()), "SIGNATURE_SCHEME_TK_API_SECP256K1", "API_KEY_CURVE_SECP256K1",
			func(body []byte) ([]byte, error) {
				digest := sha256.Sum256(body)
				return secp256k1ecdsa.Sign(key, digest[:]).Serialize(), nil
			}}, nil
	case (curve == "p256" || curve == "") && len(b) == 32:
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), b)
		if err != nil {
			return nil, errors.New("private key: out of range")
		}
		return p256Key(key)
	}
	return nil, errors.New("private key: want 64 digits (P-256), or 64 digits and :secp256k1 or :ed25519")
}

func p256Key(key *ecdsa.PrivateKey) (*Key, error) {
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, errors.New("private key: no public key")
	}
	return &Key{hex.EncodeToString(append([]byte{2 | point[64]&1}, point[1:33]...)), "SIGNATURE_SCHEME_TK_API_P256", "API_KEY_CURVE_P256",
		func(body []byte) ([]byte, error) {
			digest := sha256.Sum256(body)
			return key.Sign(nil, digest[:], crypto.SHA256) // RFC 6979
		}}, nil
}

// Public is the public key in hexadecimal, compressed unless it is of Ed25519.
func (k *Key) Public() string { return k.public }

// Curve is the key's curve as the parameters of API keys name it, API_KEY_CURVE_….
func (k *Key) Curve() string { return k.curve }

// String is Public, so that printing a key reveals no secret.
func (k *Key) String() string { return k.public }

// GoString is String.
func (k *Key) GoString() string { return k.public }

// Stamp returns the value of HeaderStamp for a request with exactly this body: base64url, without padding, of JSON.
func (k *Key) Stamp(body []byte) (string, error) {
	sig, err := k.sign(body)
	if err != nil {
		return "", fmt.Errorf("stamping: %w", err)
	}
	b, err := json.Marshal(struct {
		PublicKey string `json:"publicKey"`
		Scheme    string `json:"scheme"`
		Signature string `json:"signature"`
	}{k.public, k.scheme, hex.EncodeToString(sig)})
	if err != nil {
		return "", fmt.Errorf("stamping: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// Set sets HeaderStamp for a request with exactly this body.
func (k *Key) Set(h http.Header, body []byte) error {
	value, err := k.Stamp(body)
	if err == nil {
		h.Set(HeaderStamp, value)
	}
	return err
}
