package login

import (
	"errors"
	"strconv"
	"strings"
)

// A VerificationToken says that somebody has shown to read what is sent to a
// contact. Whether it was used already is for the caller to know, by its ID.
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
		return by.token(legacyHeader, p.text("verification_type", string(t.Type)), once)
	}
	p = p.text("exp", strconv.FormatUint(t.ExpiresMs, 10)).text("id", t.ID).text("organization_id", t.OrganizationID).
		text("verification_type", string(t.Type)).text("contact", t.Contact).text("public_key", t.PublicKey)
	return by.token(verificationHeader, p, once)
}

// TokenKeys verify tokens of the two forms.
type TokenKeys struct{ Token, Legacy PublicKey }

// VerifyVerificationToken reads a token that has not expired. Its form is that of
// its exp, a string of milliseconds or a legacy number of seconds, and decides
// which key must have signed it. The errors are *fault.Error about field.
func VerifyVerificationToken(field, text string, keys TokenKeys, nowMs uint64) (*VerificationToken, error) {
	invalid := InvalidVerificationToken(field)
	p, err := parseJWS(text)
	if err != nil || p.alg != "ES256" {
		return nil, invalid
	}
	exp := p.claims["exp"]
	t := &VerificationToken{Legacy: len(exp) > 0 && exp[0] != '"'}
	by := keys.Token
	if t.Legacy {
		by = keys.Legacy
	}
	if !by.verify(once(p.signed), p.signature) {
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
	return t, nil
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
