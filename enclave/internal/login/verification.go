package login

import (
	"errors"
	"strconv"
	"strings"

	"cloister/enclave/internal/fault"
)

// A VerificationToken says that somebody has shown to read what is sent to a
// contact. Whether it was used already is for the caller to know, by its ID. Of a
// token's text only an UnprovenToken comes; what it says is read once whoever brings
// it has proven possession of the key that it is bound to.
type VerificationToken struct {
	ID             string // a UUID
	OrganizationID string // that issued it
	Type           ContactType
	Contact        string
	// PublicKey is the client's key that the token is bound to, a compressed P-256
	// point in lower-case hex. Only a legacy token may be bound to none.
	PublicKey string
	ExpiresMs uint64
	// Legacy is the form of the first version, whose key is its own.
	Legacy bool
}

const (
	verificationHeader = `{"typ":"JWT","alg":"ES256"}`
	legacyHeader       = `{"alg":"ES256","typ":"JWT"}`
)

// IssueVerificationToken makes the token's text. A legacy token ends at the whole
// second before ExpiresMs; it names its organization, as one must be able to find
// out what it was used for.
func IssueVerificationToken(by *Signer, t *VerificationToken) (string, error) {
	if t.ID == "" || t.OrganizationID == "" || t.Type == "" || t.Contact == "" || t.ExpiresMs < 1000 || t.PublicKey == "" && !t.Legacy {
		return "", errors.New("a verification token that lacks something")
	}
	var p payload
	if t.Legacy {
		p = p.text("contact", t.Contact).number("exp", t.ExpiresMs/1000).text("id", t.ID).text("organization_id", t.OrganizationID)
		if t.PublicKey != "" {
			p = p.text("public_key", t.PublicKey)
		}
		return by.token(legacyHeader, p.text("verification_type", string(t.Type)), digest)
	}
	p = p.text("exp", strconv.FormatUint(t.ExpiresMs, 10)).text("id", t.ID).text("organization_id", t.OrganizationID).
		text("verification_type", string(t.Type)).text("contact", t.Contact).text("public_key", t.PublicKey)
	return by.token(verificationHeader, p, digest)
}

// TokenKeys verify tokens of the two forms.
type TokenKeys struct{ Token, Legacy PublicKey }

// An UnprovenToken is a genuine token of which nobody has shown that it is his to
// use: tokens pass the host, and others, in clear. ForLogin, ForSignup and ByStamp
// are the ways to show it; each asks for a signature by the key that the token is
// bound to. One that is bound to none is good for whoever has it.
type UnprovenToken struct {
	field, text string
	token       VerificationToken
}

// ReadVerificationToken reads a token that has not expired. Its form is that of
// its exp, a string of milliseconds or a legacy number of seconds, and decides
// which key must have signed it. The errors are *fault.Error about field.
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
	if !by.verify(digest(p.signed), p.signature) {
		return nil, invalid
	}
	var ok bool
	if t.ExpiresMs, ok = expiry(p.claims, t.Legacy); !ok {
		return nil, invalid
	}
	typ := ""
	for name, into := range map[string]*string{"id": &t.ID, "organization_id": &t.OrganizationID, "verification_type": &typ,
		"contact": &t.Contact, "public_key": &t.PublicKey} {
		if *into, _, ok = p.claims.text(name); !ok || *into == "" && !(t.Legacy && name == "public_key") {
			return nil, invalid
		}
	}
	t.Type = ContactType(typ)
	switch {
	case !t.Type.Valid():
		return nil, invalid
	case nowMs >= t.ExpiresMs:
		return nil, ExpiredVerificationToken(field)
	}
	return u, nil
}

// IssuedBy tells whether an organization has issued the token.
func (u *UnprovenToken) IssuedBy(organization string) bool {
	return u.token.OrganizationID == organization
}

// About tells whether the token is about this contact.
func (u *UnprovenToken) About(t ContactType, contact string) bool {
	return contact != "" && u.token.Type == t && ContactKey(t, u.token.Contact) == ContactKey(t, contact)
}

// BoundTo tells whether the token is bound to a client's key, given in hex.
func (u *UnprovenToken) BoundTo(publicKey string) bool { return u.token.BoundTo(publicKey) }

// ForLogin is the token for a session of publicKey, if s is its key's word for that.
// The first version takes legacy tokens too, s as a mere signature over the token, if
// that is by the session's own key, and of a token that is bound to no key no
// signature at all. Errors are *fault.Error about field, where s came from, or the token.
func (u *UnprovenToken) ForLogin(field string, s *ClientSignature, publicKey string, first bool) (*VerificationToken, error) {
	switch {
	case !first && u.token.Legacy:
		return nil, InvalidVerificationToken(u.field)
	case s == nil:
		return u.withoutSignature(field, !first)
	case first && s.Message == u.text: // it says nothing of the session, so the session's must be its key
		if !strings.EqualFold(s.PublicKey, publicKey) {
			return nil, fault.Field(field, "a signature over the verification token must be of the session's key")
		}
		return u.tokenOr(verifyBare(field, s.Signature, u.text, &u.token, publicKey))
	}
	return u.tokenOr(s.verifyLogin(field, &u.token, publicKey))
}

// ForSignup is the token for a sign-up of want, if s is its key's word for just that.
// SignupV1 takes legacy tokens too, and of one that is bound to no key no signature.
// Errors are as ForLogin's.
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

// ByStamp is the token for a request that says nothing of a client signature:
// publicKey must have stamped it, which is for the caller to know.
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
		ms, there, ok := o.seconds("exp")
		return ms, there && ok && !strings.Contains(string(o["exp"]), ".")
	}
	text, _, ok := o.text("exp")
	if !ok || strings.HasPrefix(text, "+") {
		return 0, false
	}
	ms, err := strconv.ParseUint(text, 10, 53)
	return ms, err == nil
}

// BoundTo tells whether the token is bound to a client's key, given in hex.
func (t *VerificationToken) BoundTo(publicKey string) bool {
	return t != nil && t.PublicKey != "" && strings.EqualFold(t.PublicKey, publicKey)
}
