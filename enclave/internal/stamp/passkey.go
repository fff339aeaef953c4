package stamp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/strictjson"
	"cloister/enclave/internal/webauthn"
)

// A Passkey is a stamp that names a credential. Nothing of it is proven.
type Passkey struct {
	body      []byte
	value     string
	assertion webauthn.Assertion
}

// passkeyStamp is the JSON of X-Stamp-WebAuthn.
type passkeyStamp struct {
	AuthenticatorData string `json:"authenticatorData" rule:"required"`
	ClientDataJSON    string `json:"clientDataJson" rule:"required"`
	CredentialID      string `json:"credentialId" rule:"required"`
	Signature         string `json:"signature" rule:"required"`
}

// passkeyLimits: an object of four strings.
var passkeyLimits = strictjson.Limits{Depth: 1, Values: 5}

// readPasskey reads a header value: JSON, or base64 of it.
func readPasskey(value string, body []byte) (*Passkey, error) {
	text := []byte(value)
	if !strings.HasPrefix(strings.TrimLeft(value, " "), "{") {
		var ok bool
		if text, ok = webauthn.Text(value, MaxHeader); !ok {
			return nil, errNoAssertion("neither JSON nor base64")
		}
	}
	var s passkeyStamp
	if strictjson.Decode(text, &s, strictjson.Within(passkeyLimits)) != nil {
		return nil, errNoAssertion("not an object of authenticatorData, clientDataJson, credentialId and signature")
	}
	p := &Passkey{body: body, value: value}
	for _, m := range []struct {
		name, text string
		most       int
		into       *[]byte
	}{
		{"authenticatorData", s.AuthenticatorData, webauthn.MaxAuthenticatorData, &p.assertion.AuthenticatorData},
		{"clientDataJson", s.ClientDataJSON, webauthn.MaxClientDataJSON, &p.assertion.ClientDataJSON},
		{"credentialId", s.CredentialID, webauthn.MaxCredentialID, &p.assertion.CredentialID},
		{"signature", s.Signature, webauthn.MaxSignature, &p.assertion.Signature},
	} {
		var ok bool
		if *m.into, ok = webauthn.Text(m.text, m.most); !ok {
			return nil, errNoAssertion("bad " + m.name)
		}
	}
	return p, nil
}

// CredentialID is the id of the credential that the stamp names. It must not be
// changed.
func (p *Passkey) CredentialID() []byte { return p.assertion.CredentialID }

// Unverified tells in which organization to look for the credential.
func (p *Passkey) Unverified() Unverified { return Unverified{p.body} }

// Verify holds the stamp against the credential that it names, nil if the
// organization has none, with the counter that was seen last. The new counter is
// for the caller to keep.
func (p *Passkey) Verify(c *webauthn.Credential, counter uint32, allowed webauthn.Origins) (*Caller, uint32, error) {
	if c == nil || !bytes.Equal(c.ID, p.assertion.CredentialID) {
		return nil, 0, fault.WithCode(fault.Unauthenticated, "CREDENTIAL_NOT_FOUND", "credential ID could not be found in organization or its parent organization")
	}
	fingerprint := sha256.Sum256(p.body)
	challenge := hex.AppendEncode(nil, fingerprint[:])
	counted, err := webauthn.Assert(p.assertion, challenge, c, counter, allowed)
	if err != nil {
		if !insecure.Skip(insecure.Stamp) {
			var why webauthn.Refusal
			errors.As(err, &why)
			return nil, 0, errInvalid("could not verify WebAuthN signature: " + string(why))
		}
		counted = counter
	}
	return &Caller{
		body: p.body, fingerprint: fingerprint, scheme: WebAuthn, publicKey: hex.EncodeToString(c.PublicKey), signature: p.value,
		credentialID: base64.RawURLEncoding.EncodeToString(c.ID),
	}, counted, nil
}

// errNoAssertion is about a header in which the parts of an assertion could not be
// found.
func errNoAssertion(why string) error { return errInvalid("could not extract webauthn stamp: " + why) }
