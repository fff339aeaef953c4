package stamp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/webauthn"
)

// A Passkey is a parsed stamp that names a credential. Nothing in it is verified.
type Passkey struct {
	body      []byte
	value     string
	assertion webauthn.Assertion
}

// passkeyStamp is the JSON of X-Stamp-WebAuthn. Clients that forward a browser's whole answer also send the user handle,
// which is empty in Safari. It is ignored: no signature covers it, and the credential identifies the user.
type passkeyStamp struct {
	AuthenticatorData string `json:"authenticatorData" rule:"required"`
	ClientDataJSON    string `json:"clientDataJson" rule:"required"`
	CredentialID      string `json:"credentialId" rule:"required"`
	Signature         string `json:"signature" rule:"required"`
	UserHandle        string `json:"userHandle"`
}

// readPasskey parses a header value.
func readPasskey(value string, body []byte) (*Passkey, error) {
	var s passkeyStamp
	if err := decodeStamp(passkey, value, &s, "authenticatorData, clientDataJson, credentialId and signature"); err != nil {
		return nil, err
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
			return nil, errNotExtracted(passkey, "bad "+m.name)
		}
	}
	return p, nil
}

// CredentialID is the id of the credential that the stamp names. It must not be changed.
func (p *Passkey) CredentialID() []byte { return p.assertion.CredentialID }

// Unverified is the body, only to find the credential's organization.
func (p *Passkey) Unverified() Unverified { return Unverified{p.body} }

// Verify verifies the stamp with the credential that it names, nil if the organization has no such
// credential, and with the stored signature counter. It returns the new counter to store.
func (p *Passkey) Verify(c *webauthn.Credential, counter uint32, allowed webauthn.Origins) (*Caller, uint32, error) {
	if c == nil || !bytes.Equal(c.ID, p.assertion.CredentialID) {
		return nil, 0, fault.WithCode(fault.Unauthenticated, "CREDENTIAL_NOT_FOUND", "credential ID could not be found in organization or its parent organization")
	}
	fingerprint := sha256.Sum256(p.body)
	challenge := hex.AppendEncode(nil, fingerprint[:])
	counted, err := webauthn.Assert(p.assertion, challenge, c, counter, allowed)
	if err != nil {
		if !insecure.Skip(insecure.Stamp) {
			why, _ := errors.AsType[webauthn.Refusal](err)
			return nil, 0, errInvalid("could not verify WebAuthN signature: " + string(why))
		}
		counted = counter
	}
	return &Caller{
		body: p.body, fingerprint: fingerprint, scheme: WebAuthn, publicKey: hex.EncodeToString(c.PublicKey), signature: p.value,
		credentialID: base64.RawURLEncoding.EncodeToString(c.ID),
	}, counted, nil
}
