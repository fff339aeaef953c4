// Package stamp verifies who signed a request.
//
// A request carries exactly one credential header. X-Stamp, the stamp of an API
// key or a session key, is verified by Read: the signature over the body's exact
// bytes under the public key that the header names. Whether that key belongs to
// anybody is not known here; core looks it up by Curve and PublicKey in the
// newest state of the organization.
//
// X-Stamp-WebAuthn, the stamp of a passkey, names no key but a credential, whose
// key lies in the organization's state. Read then answers a Passkey, of which
// nothing is proven, and the Passkey's Verify makes the Caller once core has
// found the credential.
//
// X-Stamp-Attested is signed by a key that is nobody's, for which a token vouches:
// Read answers an Attested, and its Verify makes the Caller once core has verified
// the token.
//
// A Caller is made in these three ways only and holds the Body, which is a type of its own:
// an Unverified tells where to look for a key, and no byte of it is acted upon before its
// signature held.
//
// What is signed: P256 and SECP256K1 sign SHA-256 of the body, both with s in
// either half of the range (a stamp is malleable; never use it as an id);
// SECP256K1_EIP191 signs Keccak-256 of the prefixed body; ED25519 signs the body.
//
// ECDSA signatures are DER with leading zeros tolerated, as some clients write
// integers of a fixed width: short-form lengths, 1 to 33 bytes for each integer,
// nothing left over, r and s in [1, order-1]. Ed25519 follows crypto/ed25519: the
// equation without cofactor, S below the order, R compared as bytes and hence
// canonical; the key may be a non-canonical or low-order point. Keys are compared
// as bytes, so another encoding of a point is another key.
//
// A header value is at most MaxHeader bytes. Errors are *fault.Error with code
// Unauthenticated, and Unimplemented for the headers whose turn has not come.
package stamp

import (
	"crypto/sha256"

	"cloister/enclave/internal/fault"
)

// A Header is one header of a request. Both parts are the sender's word.
type Header struct{ Name, Value string }

// A Fingerprint is SHA-256 of a request's exact body: the name of an activity.
type Fingerprint [sha256.Size]byte

// A Caller is the holder of a key that signed a body. There is no other way to
// make one than Verify and Read, or a Passkey's or Attested's Verify, and none to a verified
// body but through it.
type Caller struct {
	body         []byte
	fingerprint  Fingerprint
	scheme       Scheme
	publicKey    string
	signature    string
	credentialID string
}

// Body is the signed text.
func (c *Caller) Body() Body { return Body{c.body} }

// Fingerprint is SHA-256 of the body.
func (c *Caller) Fingerprint() Fingerprint { return c.fingerprint }

// PublicKey is the key that signed, in lower-case hex: 66 digits of a compressed
// point, 64 of an Ed25519 key, or a passkey's COSE_Key.
func (c *Caller) PublicKey() string { return c.publicKey }

// Scheme says how the key signed.
func (c *Caller) Scheme() Scheme { return c.scheme }

// Signature is, for the vote's record, the hex text of the header as received; of
// a passkey the header's whole value, because what it signed is not the body but
// texts that stand there.
func (c *Caller) Signature() string { return c.signature }

// CredentialID is a passkey's credential id in base64url, empty for other keys.
func (c *Caller) CredentialID() string { return c.credentialID }

// Curve is the API_KEY_CURVE_ name under which the key was registered, or
// WEBAUTHN.
func (c *Caller) Curve() string { return schemes[c.scheme].curve }

// CredentialType is the CREDENTIAL_TYPE_ name of a long-lived key of this curve. Session keys stamp like P-256 API keys but are of other types, so
// the type that counts is the one in the organization's record.
func (c *Caller) CredentialType() string { return schemes[c.scheme].credential }

// A Verifier verifies stamps. It remembers parsed public keys, nothing else, and
// is safe for concurrent use. Make it with NewVerifier.
type Verifier struct {
	p256 *keyCache[p256Key]
	k256 *keyCache[k256Key]
}

// NewVerifier makes a Verifier with room for CachedKeys keys per curve.
func NewVerifier() *Verifier {
	return &Verifier{newKeyCache[p256Key](CachedKeys), newKeyCache[k256Key](CachedKeys)}
}

// credentials are the headers that say who is calling; a request has one of
// them.
var credentials = [...]string{apiKey: "X-Stamp", passkey: "X-Stamp-WebAuthn", attested: "X-Stamp-Attested", 3: "X-Session"}

const (
	apiKey   = 0
	passkey  = 1
	attested = 2
)

// Read finds the one credential header. A stamp by an API key is verified over
// body and answered as its Caller; one by a passkey is only read, and of an
// attested one the token is. Without an error exactly one of the three is set. Read
// is stateless: the same arguments always give the same answer. What it answers
// keeps body.
func (v *Verifier) Read(headers []Header, body []byte) (*Caller, *Passkey, *Attested, error) {
	kind, value := -1, ""
	for i := range headers {
		for k := range credentials {
			if !sameName(headers[i].Name, credentials[k]) {
				continue
			}
			if kind >= 0 {
				return nil, nil, nil, errMalformed("more than one stamp header")
			}
			kind, value = k, headers[i].Value
		}
	}
	switch {
	case kind < 0:
		return nil, nil, nil, fault.WithCode(fault.Unauthenticated, "SIGNATURE_MISSING", "no valid authentication signature found for request")
	case len(value) > MaxHeader:
		return nil, nil, nil, errMalformed("header too large")
	case kind == passkey:
		p, err := readPasskey(value, body)
		return nil, p, nil, err
	case kind == attested:
		a, err := v.ReadAttested(value, body)
		return nil, nil, a, err
	case kind != apiKey:
		return nil, nil, nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: %s", credentials[kind])
	}
	c := &Caller{body: body, fingerprint: sha256.Sum256(body)}
	if err := v.verifyAPIKey(c, value); err != nil {
		return nil, nil, nil, err
	}
	return c, nil, nil, nil
}

// Verify is Read where only an API key can sign.
func (v *Verifier) Verify(headers []Header, body []byte) (*Caller, error) {
	c, p, a, err := v.Read(headers, body)
	switch {
	case p != nil:
		return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: %s", credentials[passkey])
	case a != nil:
		return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: %s", credentials[attested])
	}
	return c, err
}

// sameName compares header names without regard to the case of ASCII letters.
func sameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func errInvalid(message string) error {
	return fault.WithCode(fault.Unauthenticated, "SIGNATURE_INVALID", "%s", message)
}

// errMalformed is about a stamp whose parts were found but make no sense.
func errMalformed(why string) error { return errInvalid("malformed activity stamp: " + why) }

// errNoAPIKeyStamp is about a header in which the parts could not be found.
func errNoAPIKeyStamp(why string) error { return errInvalid("could not extract api key stamp: " + why) }
