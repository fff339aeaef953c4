// Package stamp authenticates requests: it verifies the signature in the credential header.
//
// A request carries exactly one credential header. X-Stamp is the stamp of an API key or a
// session key. Read verifies its signature over the body's exact bytes under the public key
// that the header names. It does not look up the key's user; core does, by Curve and
// PublicKey in the newest state of the organization.
//
// X-Stamp-WebAuthn is the stamp of a passkey. It names a credential, whose key is in the
// organization's state. Read returns a Passkey, which is not verified; core looks up the
// credential, and then Passkey.Verify makes the Caller.
//
// X-Stamp-Attested is signed by a key that belongs to no user, and has a token bound to that
// key. Read returns an Attested; core verifies the token, and then Attested.Verify makes the
// Caller.
//
// Only these three ways make a Caller, and its Body is a separate type. Before the signature is
// verified there is only an Unverified, with which a key can be looked up.
//
// P256 and SECP256K1 sign SHA-256 of the body, with s in either half of the range (a stamp is
// malleable; never use it as an id). SECP256K1_EIP191 signs Keccak-256 of the prefixed body.
// ED25519 signs the body.
//
// ECDSA signatures are DER with short-form lengths, 1 to 33 bytes for each integer, nothing
// left over, r and s in [1, order-1]. Leading zeros are tolerated, because some clients write
// integers of a fixed width. Ed25519 follows crypto/ed25519: the equation without cofactor, S
// below the order, R compared as bytes and hence canonical; the key may be a non-canonical or
// low-order point. Keys are compared as bytes, so another encoding of a point is another key.
//
// A header value is at most MaxHeader bytes. Errors are *fault.Error with code
// Unauthenticated, and Unimplemented for headers that are not supported.
package stamp

import (
	"crypto/sha256"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
	"cloister/enclave/internal/webauthn"
)

const (
	// MaxHeader bounds the value of a stamp header, in bytes.
	MaxHeader = 16 << 10
	// CachedKeys is the number of parsed public keys that a Verifier caches per curve.
	CachedKeys = 4096

	pointSize = 33 // a compressed point
)

// A Header is one header of a request, in the sender's spelling.
type Header struct{ Name, Value string }

// A Fingerprint is SHA-256 of a request's exact body; it identifies the activity.
type Fingerprint [sha256.Size]byte

// A Caller is an authenticated request: a verified signature over a body, with its key. Only Read
// and the Verify methods make one, and only a Caller returns a Body.
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

// PublicKey is the key that signed, in lower-case hex: a compressed point of 66 digits,
// an Ed25519 key of 64, or a passkey's COSE_Key.
func (c *Caller) PublicKey() string { return c.publicKey }

// Scheme is the signature's scheme.
func (c *Caller) Scheme() Scheme { return c.scheme }

// Signature is the signature for the vote's record: the received hex text, or a passkey's whole
// header value, because a passkey signs texts in that value and not the body.
func (c *Caller) Signature() string { return c.signature }

// CredentialID is a passkey's credential id in base64url, empty for other keys.
func (c *Caller) CredentialID() string { return c.credentialID }

// Curve is the API_KEY_CURVE_ name under which the key was registered, or WEBAUTHN.
func (c *Caller) Curve() string { return schemes[c.scheme].curve }

// CredentialType is the CREDENTIAL_TYPE_ name of a long-lived key of this curve. Session keys
// stamp like P-256 API keys but have other types, so the organization's record decides.
func (c *Caller) CredentialType() string { return schemes[c.scheme].credential }

// A Verifier verifies stamps. It caches parsed public keys and has no other state. It is safe for
// concurrent use.
type Verifier struct {
	p256 *keyCache[p256Key]
	k256 *keyCache[k256Key]
}

// NewVerifier makes a Verifier that caches CachedKeys keys per curve.
func NewVerifier() *Verifier {
	return &Verifier{newKeyCache[p256Key](CachedKeys), newKeyCache[k256Key](CachedKeys)}
}

// credentials are the credential headers. kind is the stamp's name in errors.
var credentials = [...]struct{ header, kind string }{
	apiKey: {"X-Stamp", "api key"}, passkey: {"X-Stamp-WebAuthn", "webauthn"}, attested: {"X-Stamp-Attested", "attested"}, 3: {header: "X-Session"},
}

const (
	apiKey   = 0
	passkey  = 1
	attested = 2
)

// Read finds the one credential header. It verifies a stamp by an API key over body and returns
// its Caller. It only parses a passkey's stamp, and does not verify the token of an attested
// stamp. Without an error exactly one of the three results is set. Read is deterministic; the
// result keeps a reference to body.
func (v *Verifier) Read(headers []Header, body []byte) (*Caller, *Passkey, *Attested, error) {
	kind, value := -1, ""
	for i := range headers {
		for k := range credentials {
			if !sameName(headers[i].Name, credentials[k].header) {
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
		return nil, nil, nil, errUnimplemented(kind)
	}
	c := &Caller{body: body, fingerprint: sha256.Sum256(body)}
	if err := v.verifyAPIKey(c, value); err != nil {
		return nil, nil, nil, err
	}
	return c, nil, nil, nil
}

// Verify is Read for requests that only an API key may sign.
func (v *Verifier) Verify(headers []Header, body []byte) (*Caller, error) {
	c, p, a, err := v.Read(headers, body)
	switch {
	case p != nil:
		return nil, errUnimplemented(passkey)
	case a != nil:
		return nil, errUnimplemented(attested)
	}
	return c, err
}

// decodeStamp decodes a header value, JSON or base64 of it: an object of up to five strings. members
// lists its members for the error.
func decodeStamp(kind int, value string, into any, members string) error {
	text := []byte(value)
	if !strings.HasPrefix(strings.TrimLeft(value, " "), "{") {
		var ok bool
		if text, ok = webauthn.Text(value, MaxHeader); !ok {
			return errNotExtracted(kind, "neither JSON nor base64")
		}
	}
	if strictjson.Decode(text, into, strictjson.Within(strictjson.Limits{Depth: 1, Values: 6})) != nil {
		return errNotExtracted(kind, "not an object of "+members)
	}
	return nil
}

// sameName compares header names, ignoring the case of ASCII letters. Comparing the lengths
// excludes other letters that fold to ASCII: they are longer in UTF-8.
func sameName(a, ascii string) bool { return len(a) == len(ascii) && strings.EqualFold(a, ascii) }

func errUnimplemented(kind int) error {
	return fault.New(fault.Unimplemented, "UNIMPLEMENTED: %s", credentials[kind].header)
}

func errInvalid(message string) error {
	return fault.WithCode(fault.Unauthenticated, "SIGNATURE_INVALID", "%s", message)
}

// errMalformed is the error of a stamp with all parts, of which one is invalid.
func errMalformed(why string) error { return errInvalid("malformed activity stamp: " + why) }

// errNotExtracted is the error of a header in which the stamp's parts were not found.
func errNotExtracted(kind int, why string) error {
	return errInvalid("could not extract " + credentials[kind].kind + " stamp: " + why)
}
