package login

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"

	"cloister/enclave/internal/fault"
)

// A VerificationToken says that somebody has proven to read messages to a contact. The caller
// keeps, by ID, whether the token was used. A token's text gives only an UnprovenToken; its
// content is readable after a proof of possession of the key that it is bound to.
type VerificationToken struct {
	ID             string // a UUID
	OrganizationID string // that issued it
	Type           ContactType
	Contact        string
	// PublicKey is the client's key that the token is bound to, a compressed P-256 point in
	// lower-case hex. Only a legacy token may be bound to none.
	PublicKey string
	ExpiresMs uint64
	Legacy    bool // the form of the first version, which has its own signing key
}

const (
	verificationHeader = `{"typ":"JWT","alg":"ES256"}`
	legacyHeader       = `{"alg":"ES256","typ":"JWT"}`
)

// IssueVerificationToken makes the token's text. A legacy token ends at ExpiresMs rounded down to a
// whole second. It names its organization, where its uses are recorded.
func IssueVerificationToken(by *Signer, t *VerificationToken) (string, error) {
	if t.ExpiresMs < 1000 || !t.isComplete() {
		return "", errors.New("a verification token that lacks something")
	}
	var p payload
	if t.Legacy {
		p = p.text("contact", t.Contact).number("exp", t.ExpiresMs/1000).text("id", t.ID).text("organization_id", t.OrganizationID)
		if t.PublicKey != "" {
			p = p.text("public_key", t.PublicKey)
		}
		return by.token(legacyHeader, p.text("verification_type", string(t.Type)), sha256.Sum256)
	}
	p = p.text("exp", strconv.FormatUint(t.ExpiresMs, 10)).text("id", t.ID).text("organization_id", t.OrganizationID).
		text("verification_type", string(t.Type)).text("contact", t.Contact).text("public_key", t.PublicKey)
	return by.token(verificationHeader, p, sha256.Sum256)
}

// TokenKeys verify tokens of the two forms.
type TokenKeys struct{ Token, Legacy PublicKey }

// An UnprovenToken is a genuine token that anybody may have brought: tokens pass the host, and
// others, in clear. ForLogin, ForSignup and ByStamp give the token to a caller with a signature of
// the key that it is bound to. Whoever has a token that is bound to no key may use it.
type UnprovenToken struct {
	field, text string
	token       VerificationToken
}

// ReadVerificationToken reads a token that has not expired. exp tells its form, a string of
// milliseconds or a legacy number of seconds, and so the key that must have signed it. Errors are
// *fault.Error about field.
func ReadVerificationToken(field, text string, keys TokenKeys, nowMs uint64) (*UnprovenToken, error) {
	invalid := InvalidVerificationToken(field)
	p, err := parseJWS(text)
	if err != nil || p.alg != "ES256" {
		return nil, invalid
	}
	exp := p.claims["exp"]
	u := &UnprovenToken{field: field, text: text}
	t := &u.token
	t.Legacy = len(exp) > 0 && exp[0] != '"'
	by := keys.Token
	if t.Legacy {
		by = keys.Legacy
	}
	if !by.verify(sha256.Sum256(p.signed), p.signature) {
		return nil, invalid
	}
	var ok bool
	if t.ExpiresMs, ok = expiry(p.claims, t.Legacy); !ok {
		return nil, invalid
	}
	if !p.claims.readTexts(map[string]*string{"id": &t.ID, "organization_id": &t.OrganizationID, "verification_type": (*string)(&t.Type),
		"contact": &t.Contact, "public_key": &t.PublicKey}) || !t.isComplete() || !t.Type.Valid() {
		return nil, invalid
	}
	if nowMs >= t.ExpiresMs {
		return nil, ExpiredVerificationToken(field)
	}
	return u, nil
}

func (t *VerificationToken) isComplete() bool {
	return t.ID != "" && t.OrganizationID != "" && t.Type != "" && t.Contact != "" && (t.PublicKey != "" || t.Legacy)
}

// IssuedBy tells whether an organization has issued the token.
func (u *UnprovenToken) IssuedBy(organization string) bool {
	return u.token.OrganizationID == organization
}

// About tells whether the token is about this contact.
func (u *UnprovenToken) About(t ContactType, contact string) bool {
	return contact != "" && u.token.Type.Address() == t.Address() && ContactKey(t, u.token.Contact) == ContactKey(t, contact)
}

// BoundTo tells whether the token is bound to a client's key, given in hex.
func (u *UnprovenToken) BoundTo(publicKey string) bool { return u.token.BoundTo(publicKey) }

// ForLogin is the token for a session of publicKey, if the token's key has signed s for that
// session. The first version also takes legacy tokens, a mere signature over the token by the
// session's own key, and no signature for a token that is bound to no key. Errors are
// *fault.Error about field, where s came from, or the token.
func (u *UnprovenToken) ForLogin(field string, s *ClientSignature, publicKey string, first bool) (*VerificationToken, error) {
	switch {
	case !first && u.token.Legacy:
		return nil, InvalidVerificationToken(u.field)
	case s == nil:
		return u.withoutSignature(field, !first)
	case first && s.Message == u.text: // it does not name the session, so the session's key must have signed it
		if !strings.EqualFold(s.PublicKey, publicKey) {
			return nil, fault.Field(field, "a signature over the verification token must be of the session's key")
		}
		return u.tokenOr(verifyBare(field, s.Signature, u.text, &u.token, publicKey))
	}
	return u.tokenOr(s.verifyLogin(field, &u.token, publicKey))
}

// ForSignup is the token for a sign-up of want, if the token's key has signed s for exactly that.
// SignupV1 also takes legacy tokens, and no signature for a token that is bound to no key. Errors
// are like ForLogin's.
func (u *UnprovenToken) ForSignup(field string, s *ClientSignature, usage Usage, want *Signup) (*VerificationToken, error) {
	strict := usage == SignupV2
	switch {
	case strict && u.token.Legacy:
		return nil, InvalidVerificationToken(u.field)
	case s == nil:
		return u.withoutSignature(field, strict)
	}
	return u.tokenOr(s.verifySignup(field, &u.token, usage, want))
}

// ByStamp is the token for a request without a client signature. The caller must know that
// publicKey stamped the request.
func (u *UnprovenToken) ByStamp(publicKey string) (*VerificationToken, error) {
	if u.token.PublicKey != "" && !u.token.BoundTo(publicKey) {
		return nil, fault.Field(u.field, "is bound to a key that has not stamped this request: verify the passcode with the key that stamps")
	}
	return &u.token, nil
}

// withoutSignature is the token where no signature was given.
func (u *UnprovenToken) withoutSignature(field string, strict bool) (*VerificationToken, error) {
	switch {
	case strict:
		return nil, fault.Field(field, "must be given with a verification token")
	case u.token.PublicKey != "":
		return nil, fault.Field(field, "must be given: the verification token is bound to a key")
	}
	return &u.token, nil
}

func (u *UnprovenToken) tokenOr(err error) (*VerificationToken, error) {
	if err != nil {
		return nil, err
	}
	return &u.token, nil
}

func expiry(o object, legacy bool) (ms uint64, ok bool) {
	if legacy {
		return o.wholeSeconds("exp")
	}
	text, ok := o.text("exp")
	ms, err := strconv.ParseUint(text, 10, 53)
	return ms, ok && err == nil
}

// BoundTo tells whether the token is bound to a client's key, given in hex.
func (t *VerificationToken) BoundTo(publicKey string) bool {
	return t != nil && t.PublicKey != "" && strings.EqualFold(t.PublicKey, publicKey)
}
