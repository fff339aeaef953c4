package idp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Algorithms are those that identity tokens can be signed with; the first is the usual one.
var Algorithms = []string{string(jose.RS256), string(jose.ES256)}

// Keys are what tokens are signed with, one key for each algorithm.
type Keys struct{ set jose.JSONWebKeySet }

// NewKeys makes keys.
func NewKeys() (*Keys, error) {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	k := new(Keys)
	for i, key := range []any{r, e} {
		j := jose.JSONWebKey{Key: key, Algorithm: Algorithms[i], Use: "sig"}
		sum, err := j.Thumbprint(crypto.SHA256)
		if err != nil {
			return nil, err
		}
		j.KeyID = base64.RawURLEncoding.EncodeToString(sum)
		k.set.Keys = append(k.set.Keys, j)
	}
	return k, nil
}

// Marshal writes the keys, private parts included, for ParseKeys.
func (k *Keys) Marshal() ([]byte, error) { return json.Marshal(k.set) }

// ParseKeys reads what Marshal wrote.
func ParseKeys(b []byte) (*Keys, error) {
	k := new(Keys)
	if err := json.Unmarshal(b, &k.set); err != nil {
		return nil, errors.New("the identity provider's keys cannot be read")
	}
	for _, alg := range Algorithms {
		if j := k.keyFor(alg); j == nil || j.IsPublic() || !j.Valid() {
			return nil, errors.New("the identity provider's keys are incomplete")
		}
	}
	return k, nil
}

func (k *Keys) keyFor(alg string) *jose.JSONWebKey {
	for i := range k.set.Keys {
		if k.set.Keys[i].Algorithm == alg {
			return &k.set.Keys[i]
		}
	}
	return nil
}

// public is the key set that everybody may read.
func (k *Keys) public() *jose.JSONWebKeySet {
	s := new(jose.JSONWebKeySet)
	for i := range k.set.Keys {
		s.Keys = append(s.Keys, k.set.Keys[i].Public())
	}
	return s
}

type claims struct {
	Issuer        string `json:"iss"`
	Subject       string `json:"sub"`
	Audience      string `json:"aud"`
	Nonce         string `json:"nonce,omitempty"`
	IssuedAt      int64  `json:"iat"` // seconds, as Expires
	Expires       int64  `json:"exp"`
	Email         string `json:"email,omitempty"`
	EmailVerified *bool  `json:"email_verified,omitempty"` // exactly when there is an email
	Name          string `json:"name,omitempty"`
}

func (k *Keys) sign(alg string, c *claims) (string, error) {
	j := k.keyFor(alg)
	if j == nil {
		return "", errors.New("no key for " + alg)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: j}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(s).Claims(c).Serialize()
}
