// Package webauthn verifies that a passkey was made (Register) and that one signed (Assert).
//
// All input comes from outside and is read strictly and within bounds. clientDataJSON is JSON
// without repeated members, perhaps behind one byte order mark; unknown members are tolerated because
// clients add some. CBOR has definite lengths, no tags, no repeated keys, and nothing left over.
//
// Attestation. The statements of none, packed (with and without certificates) and fido-u2f are
// verified: the leaf's key, or the passkey's own, signed. Certificate chains are not followed,
// so nothing says who made an authenticator. Statements of tpm, android-key,
// android-safetynet, apple and compound are only parsed; such a passkey is recorded as none.
// So is one whose statement is by a key that cannot be verified here: its certificate is not for
// crypto/x509, its algorithm is none of those below, it is of ECDAA. No security is lost: a client can
// leave out any statement, and an authorized user signs the request that registers the passkey. A
// statement that can be verified and is wrong is refused, and so are other formats.
//
// Algorithms are ES256, RS256 with 2048 to 4096 bits and exponent 65537, and
// EdDSA with Ed25519.
//
// The user must have been present. Verification of the user is not demanded.
package webauthn

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Bounds of what is read, in bytes.
const (
	MaxCredentialID      = 1023
	MaxClientDataJSON    = 4 << 10
	MaxAuthenticatorData = 4 << 10
	MaxAttestationObject = 16 << 10
	MaxSignature         = 512 // of 4096 bits of RSA
)

// A Refusal says why something was not accepted, in words fit for its sender.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Credential is a passkey as registered.
type Credential struct {
	ID        []byte
	PublicKey []byte   // COSE_Key, as the authenticator wrote it
	RPIDHash  [32]byte // SHA-256 of the relying party's id
	AAGUID    [16]byte
	Origin    string
	Counter   uint32
	Format    string // of the statement that was verified: none, packed or fido-u2f
}

// Registration is what a client sends when a passkey was made.
type Registration struct {
	CredentialID      []byte
	Challenge         []byte // what it was asked to sign
	ClientDataJSON    []byte
	AttestationObject []byte
}

// Assertion is what a client sends when a passkey signed.
type Assertion struct {
	CredentialID      []byte
	AuthenticatorData []byte
	ClientDataJSON    []byte
	Signature         []byte
}

// Register accepts a new passkey. An error is a Refusal.
func Register(r Registration, allowed Origins) (*Credential, error) {
	client, err := parseClientData(r.ClientDataJSON)
	if err != nil {
		return nil, err
	}
	o, err := parseAttestation(r.AttestationObject)
	if err != nil {
		return nil, err
	}
	d := o.data
	switch {
	case client.typ != "webauthn.create":
		return nil, Refusal("clientDataJSON is not of webauthn.create")
	case !client.hasChallenge(r.Challenge):
		return nil, Refusal("challenge does not match")
	case !allowed.accept(client.origin, d.rpIDHash):
		return nil, Refusal("origin is not allowed")
	case !d.userPresent:
		return nil, Refusal("user was not present")
	case d.attested == nil:
		return nil, Refusal("attested credential data is missing")
	case !bytes.Equal(d.attested.id, r.CredentialID):
		return nil, Refusal("credentialId is not the attested one")
	}
	key, err := parseKey(d.attested.key)
	if err != nil {
		return nil, err
	}
	format, err := o.verify(key, sha256.Sum256(r.ClientDataJSON))
	if err != nil {
		return nil, err
	}
	return &Credential{
		ID: bytes.Clone(d.attested.id), PublicKey: bytes.Clone(d.attested.key), RPIDHash: d.rpIDHash, AAGUID: d.attested.aaguid,
		Origin: client.origin, Counter: d.counter, Format: format,
	}, nil
}

// Assert accepts a signature of passkey c over challenge. counter is the highest that was seen
// of c, and Assert returns the highest now. A lower counter is refused, unless it is 0, as with
// passkeys that do not count. An equal one is accepted, because clients repeat requests. An
// error is a Refusal.
func Assert(a Assertion, challenge []byte, c *Credential, counter uint32, allowed Origins) (uint32, error) {
	client, err := parseClientData(a.ClientDataJSON)
	if err != nil {
		return 0, err
	}
	d, err := parseAuthenticatorData(a.AuthenticatorData)
	if err != nil {
		return 0, err
	}
	switch {
	case !bytes.Equal(a.CredentialID, c.ID):
		return 0, Refusal("credentialId is another one")
	case client.typ != "webauthn.get":
		return 0, Refusal("clientDataJSON is not of webauthn.get")
	case !client.hasChallenge(challenge):
		return 0, Refusal("challenge does not match")
	case d.rpIDHash != c.RPIDHash:
		return 0, Refusal("relying party is another one")
	case !allowed.accept(client.origin, d.rpIDHash):
		return 0, Refusal("origin is not allowed")
	case !d.userPresent:
		return 0, Refusal("user was not present")
	case d.attested != nil:
		return 0, Refusal("attested credential data in an assertion")
	case d.counter != 0 && d.counter < counter:
		return 0, Refusal("counter has gone back")
	}
	key, err := parseKey(c.PublicKey)
	if err != nil {
		return 0, err
	}
	hash := sha256.Sum256(a.ClientDataJSON)
	if !key.verify(slices.Concat(a.AuthenticatorData, hash[:]), a.Signature) {
		return 0, Refusal("signature does not verify")
	}
	return max(counter, d.counter), nil
}

// Text reads base64 of at most most bytes. Clients use either alphabet, with or without
// padding. Line breaks and bits left over are refused.
func Text(s string, most int) ([]byte, bool) {
	if len(s) > (most+2)/3*4 || strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	e := encodings[strings.ContainsAny(s, "+/")][strings.HasSuffix(s, "=")]
	b, err := e.DecodeString(s)
	return b, err == nil && len(b) <= most
}

// decoding refuses CBOR that two readers could understand differently.
var decoding = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		MaxNestedLevels: 8, MaxArrayElements: 64, MaxMapPairs: 64,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()
