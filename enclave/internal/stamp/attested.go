package stamp

import (
	"crypto/sha256"
	"strings"

	"cloister/enclave/internal/strictjson"
	"cloister/enclave/internal/webauthn"
)

// An Attested is a stamp by a key that no user has, with a token that vouches for
// it. The signature over the body was verified under that key. Whether the token is
// genuine, and whom it is about, is not known here.
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

// attestedLimits: an object of four strings.
var attestedLimits = strictjson.Limits{Depth: 1, Values: 5}

// attestedSchemes by whether the token is an identity token.
var attestedSchemes = map[string]bool{"STAMP_ATTESTED_SCHEME_P256_VERIFICATION_TOKEN": false, "STAMP_ATTESTED_SCHEME_P256_OIDC": true}

// ReadAttested reads a value of X-Stamp-Attested, JSON or base64 of it, and
// verifies the signature over body, which the answer keeps.
func (v *Verifier) ReadAttested(value string, body []byte) (*Attested, error) {
	if len(value) > MaxHeader {
		return nil, errMalformed("header too large")
	}
	text := []byte(value)
	if !strings.HasPrefix(strings.TrimLeft(value, " "), "{") {
		var ok bool
		if text, ok = webauthn.Text(value, MaxHeader); !ok {
			return nil, errNoAttestedStamp("neither JSON nor base64")
		}
	}
	var s attestedStamp
	if strictjson.Decode(text, &s, strictjson.Within(attestedLimits)) != nil {
		return nil, errNoAttestedStamp("not an object of publicKeyAttestation, scheme, publicKey and signature")
	}
	oidc, known := attestedSchemes[s.Scheme]
	if !known {
		return nil, errMalformed("unknown scheme")
	}
	var key [pointSize]byte
	if len(s.PublicKey) != 2*pointSize || !decodeHex(key[:], s.PublicKey) {
		return nil, errMalformed("bad publicKey")
	}
	var sig [maxDER]byte
	if len(s.Signature) > maxSignature || len(s.Signature)%2 != 0 || !decodeHex(sig[:len(s.Signature)/2], s.Signature) {
		return nil, errMalformed("bad signature")
	}
	rs, ok := parseDER(sig[:len(s.Signature)/2])
	if !ok {
		return nil, errMalformed("bad signature")
	}
	c := &Caller{body: body, fingerprint: sha256.Sum256(body), scheme: AttestedP256, publicKey: strings.ToLower(s.PublicKey), signature: s.Signature}
	if err := v.verifyP256(key, &rs, c.fingerprint[:]); err != nil {
		return nil, err
	}
	return &Attested{c, s.Attestation, oidc}, nil
}

// Token is the token that is to vouch for the key: an identity token if OIDC, and
// else a verification token.
func (a *Attested) Token() string { return a.token }

// OIDC tells which token it is.
func (a *Attested) OIDC() bool { return a.oidc }

// PublicKey is the key that signed, a compressed point in lower-case hex.
func (a *Attested) PublicKey() string { return a.caller.publicKey }

// Unverified tells in which organization to look for the user.
func (a *Attested) Unverified() Unverified { return Unverified{a.caller.body} }

// A Voucher is a token that was verified. Both kinds of login are.
type Voucher interface{ BoundTo(publicKey string) bool }

// Verify makes the Caller if by, the verified Token, is bound to the key that
// signed; nil vouches for nobody. Whose the token is, is for who calls it to find:
// the Caller's key is nobody's.
func (a *Attested) Verify(by Voucher) (*Caller, error) {
	if by == nil || !by.BoundTo(a.caller.publicKey) {
		return nil, errInvalid("could not verify attested stamp: the token is not bound to publicKey")
	}
	return a.caller, nil
}

// errNoAttestedStamp is about a header in which the parts could not be found.
func errNoAttestedStamp(why string) error {
	return errInvalid("could not extract attested stamp: " + why)
}
