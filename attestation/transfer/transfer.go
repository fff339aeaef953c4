// Package transfer answers the questions of a page that imports and exports keys: it checks what somebody typed in, encrypts it for an
// import, and decrypts an export with a key that stays in the browser.
//
// A private key of the browser that scripts cannot read out does the key exchange itself. The page first asks for the key in the
// export with which to do that (Encapsulated) and then hands over the result (Open); everything else is done by package bundle.
//
// No message here contains any part of a secret, so that a page may show and log all of them.
package transfer

import (
	"crypto/ecdh"
	"encoding/hex"
	"errors"
	"slices"

	"cloister/attestation/bundle"
)

// A Question asks one of four things.
type Question struct {
	// Check asks whether a secret is well-formed.
	Check *Secret `json:"check"`
	// Seal encrypts a secret to the target of an import.
	Seal *SealQuestion `json:"seal"`
	// Encapsulated verifies an export and returns the public key for the key exchange.
	Encapsulated *Export `json:"encapsulated"`
	// Open decrypts an export.
	Open *OpenQuestion `json:"open"`
}

// A SealQuestion is a secret, and where it goes.
type SealQuestion struct {
	Bundle       string `json:"bundle"`
	Signer       string `json:"signer"`
	Organization string `json:"organization"`
	User         string `json:"user"`
	Secret       Secret `json:"secret"`
}

// An Export is the result of an export activity, and who must have signed it for whom.
type Export struct {
	Bundle       string `json:"bundle"`
	Signer       string `json:"signer"`
	Organization string `json:"organization"`
}

// An OpenQuestion is an export with the result of the key exchange.
type OpenQuestion struct {
	Export
	PublicKey string `json:"publicKey"` // of the browser's key, 65 bytes in hex
	Shared    string `json:"shared"`    // the x coordinate of the key exchange, 32 bytes in hex
	Form      Form   `json:"form"`      // how the secret is written in the answer
}

// An Answer has the members that were asked for, or Refused and Why.
type Answer struct {
	Bundle          string `json:"bundle,omitempty"`          // for the import activity
	EncapsulatedKey string `json:"encapsulatedKey,omitempty"` // 65 bytes in hex
	Secret          string `json:"secret,omitempty"`
	Passphrase      string `json:"passphrase,omitempty"` // of a mnemonic that was imported with one
	Refused         string `json:"refused,omitempty"`    // one of the reasons below
	Why             string `json:"why,omitempty"`        // a sentence
}

// Reasons of a refusal.
const (
	RefusedSecret       = "secret"       // what was typed in is not well-formed
	RefusedSigner       = "signer"       // another signer than the trusted one
	RefusedSignature    = "signature"    // changed after it was signed
	RefusedOrganization = "organization" // made for another organization
	RefusedUser         = "user"         // made for another user
	RefusedKey          = "key"          // encrypted to another key
	RefusedBundle       = "bundle"       // anything else is wrong with it
)

var reasons = []struct {
	err  error
	name string
}{
	{bundle.ErrSigner, RefusedSigner}, {bundle.ErrSignature, RefusedSignature}, {bundle.ErrOrganization, RefusedOrganization},
	{bundle.ErrUser, RefusedUser}, {bundle.ErrKey, RefusedKey},
}

func refuse(err error) *Answer {
	if p := problem(""); errors.As(err, &p) {
		return &Answer{Refused: RefusedSecret, Why: string(p)}
	}
	a := &Answer{Refused: RefusedBundle, Why: err.Error()}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			a.Refused = r.name
		}
	}
	return a
}

// Answer answers the question. The error means that it asks for nothing, or for several things.
func (q *Question) Answer() (*Answer, error) {
	asked := []bool{q.Check != nil, q.Seal != nil, q.Encapsulated != nil, q.Open != nil}
	asked = slices.DeleteFunc(asked, func(is bool) bool { return !is })
	if len(asked) != 1 {
		return nil, errors.New("want one of check, seal, encapsulated and open")
	}
	a, err := new(Answer), error(nil)
	switch {
	case q.Check != nil:
		_, err = q.Check.Bytes()
	case q.Seal != nil:
		a.Bundle, err = q.Seal.seal()
	case q.Encapsulated != nil:
		var key *ecdh.PublicKey
		if key, err = bundle.EncapsulatedKey(q.Encapsulated.Bundle, q.Encapsulated.Signer, q.Encapsulated.Organization); err == nil {
			a.EncapsulatedKey = hex.EncodeToString(key.Bytes())
		}
	default:
		a.Secret, a.Passphrase, err = q.Open.open()
	}
	if err != nil {
		return refuse(err), nil
	}
	return a, nil
}

func (q *SealQuestion) seal() (string, error) {
	secret, err := q.Secret.Bytes()
	if err != nil {
		return "", err
	}
	defer clear(secret)
	if q.User == "" {
		return "", errors.New("no user is named")
	}
	return bundle.Seal(q.Bundle, q.Signer, q.Organization, q.User, secret)
}

func (q *OpenQuestion) open() (text, passphrase string, err error) {
	enc, err := bundle.EncapsulatedKey(q.Bundle, q.Signer, q.Organization)
	if err != nil {
		return "", "", err
	}
	own, err := hex.DecodeString(q.PublicKey)
	if err != nil {
		return "", "", errors.New("the browser's public key is not hex")
	}
	key := exchanged{with: enc}
	if key.own, err = ecdh.P256().NewPublicKey(own); err != nil {
		return "", "", errors.New("the browser's public key is not a point of P-256")
	}
	if key.shared, err = hex.DecodeString(q.Shared); err != nil || len(key.shared) != sharedSize {
		return "", "", errors.New("the result of the key exchange is not 32 bytes of hex")
	}
	defer clear(key.shared)
	secret, err := bundle.Open(q.Bundle, q.Signer, q.Organization, key)
	if err != nil {
		return "", "", err
	}
	defer clear(secret)
	return q.Form.write(secret)
}

const sharedSize = 32

// exchanged is a private key of which only one key exchange is known.
type exchanged struct {
	own, with *ecdh.PublicKey
	shared    []byte
}

func (k exchanged) PublicKey() *ecdh.PublicKey { return k.own }
func (k exchanged) Curve() ecdh.Curve          { return ecdh.P256() }
func (k exchanged) ECDH(with *ecdh.PublicKey) ([]byte, error) {
	if !k.with.Equal(with) {
		return nil, errors.New("the key exchange is with another key")
	}
	return slices.Clone(k.shared), nil
}
