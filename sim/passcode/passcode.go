// Package passcode is the client's part of a log-in with a passcode, for tests: it encrypts the code to the
// enclave and signs with the key that the verification token is bound to.
package passcode

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Encrypt is an attempt to the target in a bundle that pinned has signed, for a token
// that is to be bound to the key public.
func Encrypt(bundle, pinned, code, public string) (string, error) {
	point, err := target(bundle, pinned)
	if err != nil {
		return "", err
	}
	attempt, err := json.Marshal(map[string]string{"otp_code": code, "public_key": public})
	if err != nil {
		return "", err
	}
	return Seal(point, attempt)
}

// Seal encrypts to an enclave's point, as clients do whatever they send encrypted.
func Seal(point, plain []byte) (string, error) {
	to, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(point)
	if err != nil {
		return "", err
	}
	enc, s, err := hpke.NewSender(to, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	if err != nil {
		return "", err
	}
	sealed, err := s.Seal(slices.Concat(enc, point), plain)
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, sealed), err
}

func target(bundle, pinned string) ([]byte, error) {
	var outer struct{ Data, EnclaveQuorumPublic string }
	if err := json.Unmarshal([]byte(bundle), &outer); err != nil {
		return nil, err
	}
	if outer.EnclaveQuorumPublic != pinned {
		return nil, fmt.Errorf("signed by %s, want %s", outer.EnclaveQuorumPublic, pinned)
	}
	data, err := hex.DecodeString(outer.Data)
	if err != nil {
		return nil, err
	}
	var inner struct{ TargetPublic string }
	if err := json.Unmarshal(data, &inner); err != nil {
		return nil, err
	}
	return hex.DecodeString(inner.TargetPublic)
}

// A Client has the key that its verification token is bound to.
type Client struct {
	key    *ecdsa.PrivateKey
	Public string // compressed, in hexadecimal
}

// NewClient makes a client with a key of its own.
func NewClient() (*Client, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &Client{k, hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), k.X, k.Y))}, nil
}

// Sign is the client's signature over a message, as requests hold it.
func (c *Client) Sign(message string) (map[string]any, error) {
	sum := sha256.Sum256([]byte(message))
	r, s, err := ecdsa.Sign(rand.Reader, c.key, sum[:])
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return map[string]any{"publicKey": c.Public, "scheme": "CLIENT_SIGNATURE_SCHEME_API_P256", "message": message, "signature": hex.EncodeToString(raw)}, nil
}

// SignLogIn is the client's signature over a log-in: the token becomes a session of this key.
func (c *Client) SignLogIn(token, session string) (map[string]any, error) {
	claims, err := Claims(token)
	if err != nil {
		return nil, err
	}
	message, err := json.Marshal(map[string]any{"login": map[string]any{"publicKey": session}, "tokenId": claims["id"], "type": "USAGE_TYPE_LOGIN"})
	if err != nil {
		return nil, err
	}
	return c.Sign(string(message))
}

// Claims are those of a token, whoever signed it.
func Claims(token string) (map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("not a token")
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	var m map[string]any
	err = json.Unmarshal(b, &m)
	return m, err
}
