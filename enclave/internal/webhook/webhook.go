// Package webhook signs what receivers of events are told, as the published
// verifier reads it: Ed25519 over
//
//	v1.ed25519.KEY.TIME.EVENT.BODY
//
// with the key's id, the time in milliseconds and the event's id, which stand in headers
// too. Each attempt has a time and a signature of its own, so that a receiver can refuse
// what is old.
package webhook

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/tally"
)

const (
	version          = "1"  // of the headers
	signatureVersion = "v1" // of what is signed
	algorithm        = "ed25519"
)

// A Signer signs webhooks with one key, which lies in memory for the whole boot, so that
// signing erases nothing. It is safe for concurrent use.
type Signer struct {
	sign   func(message []byte) []byte // hides the key, so that no verb prints it
	public ed25519.PublicKey
	id     string
}

// NewSigner makes a Signer from an Ed25519 seed of 32 bytes.
func NewSigner(seed secret.Secret) (*Signer, error) {
	if seed.Len() != ed25519.SeedSize {
		return nil, errors.New("no seed of an Ed25519 key")
	}
	s := new(Signer)
	seed.Use(func(b []byte) {
		key := ed25519.NewKeyFromSeed(b)
		s.public = key.Public().(ed25519.PublicKey)
		s.sign = func(message []byte) []byte { return ed25519.Sign(key, message) }
	})
	sum := sha256.Sum256(s.public)
	s.id = "whk-" + hex.EncodeToString(sum[:8])
	return s, nil
}

// KeyID is the key's id: it follows from the key alone.
func (s *Signer) KeyID() string { return s.id }

// PublicKey is the key that verifies, in lower-case hex.
func (s *Signer) PublicKey() string { return hex.EncodeToString(s.public) }

// JWKS is the document in which receivers look for the key.
func (s *Signer) JWKS() []byte {
	return fmt.Appendf(nil, `{"keys":[{"kid":"%s","kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","x":"%s",`+
		`"turnkey_signature_algorithm":"%s","turnkey_signature_version":"%s"}]}`,
		s.id, base64.RawURLEncoding.EncodeToString(s.public), algorithm, signatureVersion)
}

// A Delivery is one attempt to tell a receiver of an event.
type Delivery struct {
	EventID      string // UUID, the same in every attempt
	Type         string // of the event, such as ACTIVITY_UPDATES
	Organization string // that it happened in, a UUID
	AtMs         uint64 // of this attempt
	Body         []byte
}

// A Header is one header of a delivery.
type Header struct{ Name, Value string }

// Head signs a delivery and is its headers.
func (s *Signer) Head(d *Delivery) []Header {
	at := strconv.FormatUint(d.AtMs, 10)
	prefix := signatureVersion + "." + algorithm + "." + s.id + "." + at + "." + d.EventID + "."
	tally.SignaturesMade.Add(1)
	signature := s.sign(append(append(make([]byte, 0, len(prefix)+len(d.Body)), prefix...), d.Body...))
	return []Header{
		{"X-Turnkey-Organization-Id", d.Organization},
		{"X-Turnkey-Event-Type", d.Type},
		{"X-Turnkey-Timestamp", at},
		{"X-Turnkey-Webhook-Version", version},
		{"X-Turnkey-Event-Id", d.EventID},
		{"X-Turnkey-Signature-Key-Id", s.id},
		{"X-Turnkey-Signature-Algorithm", algorithm},
		{"X-Turnkey-Signature-Version", signatureVersion},
		{"X-Turnkey-Signature", hex.EncodeToString(signature)},
	}
}
