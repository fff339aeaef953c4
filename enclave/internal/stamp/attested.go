package stamp

import "crypto/sha256"

// An Attested is a stamp by a key that belongs to no user, with a token bound to the key. The key's
// signature over the body is verified; the token is not.
type Attested struct {
	caller *Caller
	token  string
	oidc   bool
}

// attestedStamp is the JSON of X-Stamp-Attested.
type attestedStamp struct {
	Attestation string `json:"publicKeyAttestation" rule:"required"`
	Scheme      string `json:"scheme" rule:"required"`
	PublicKey   string `json:"publicKey" rule:"required"`
	Signature   string `json:"signature" rule:"required"`
}

// attestedSchemes are the schemes of X-Stamp-Attested; true if the token is an identity token.
var attestedSchemes = map[string]bool{"STAMP_ATTESTED_SCHEME_P256_VERIFICATION_TOKEN": false, "STAMP_ATTESTED_SCHEME_P256_OIDC": true}

// ReadAttested parses a value of X-Stamp-Attested, JSON or base64 of it, and verifies the
// signature over body. The Attested keeps a reference to body.
func (v *Verifier) ReadAttested(value string, body []byte) (*Attested, error) {
	if len(value) > MaxHeader {
		return nil, errMalformed("header too large")
	}
	var s attestedStamp
	if err := decodeStamp(attested, value, &s, "publicKeyAttestation, scheme, publicKey and signature"); err != nil {
		return nil, err
	}
	oidc, known := attestedSchemes[s.Scheme]
	if !known {
		return nil, errMalformed("unknown scheme")
	}
	c := &Caller{body: body, fingerprint: sha256.Sum256(body), scheme: AttestedP256}
	if err := v.verifyKey(c, s.PublicKey, s.Signature); err != nil {
		return nil, err
	}
	return &Attested{c, s.Attestation, oidc}, nil
}

// Token is the token bound to the key: an identity token if OIDC, otherwise a verification
// token.
func (a *Attested) Token() string { return a.token }

// OIDC reports whether Token is an identity token.
func (a *Attested) OIDC() bool { return a.oidc }

// PublicKey is the key that signed, a compressed point in lower-case hex.
func (a *Attested) PublicKey() string { return a.caller.publicKey }

// Unverified is the body, only to find the user's organization.
func (a *Attested) Unverified() Unverified { return Unverified{a.caller.body} }

// A Voucher is a verified token. Both kinds of token in package login are Vouchers.
type Voucher interface{ BoundTo(publicKey string) bool }

// Verify makes the Caller if by, the verified Token, is bound to the key that signed. A nil Voucher
// is bound to none. The calling code must look up the token's user, since the key has no owner.
func (a *Attested) Verify(by Voucher) (*Caller, error) {
	if by == nil || !by.BoundTo(a.caller.publicKey) {
		return nil, errInvalid("could not verify attested stamp: the token is not bound to publicKey")
	}
	return a.caller, nil
}
