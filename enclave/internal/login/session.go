package login

import (
	"errors"
	"strings"

	"cloister/enclave/internal/fault"
)

// Types of sessions.
const (
	ReadWrite = "SESSION_TYPE_READ_WRITE"
	ReadOnly  = "SESSION_TYPE_READ_ONLY"
)

// A Session is what a session's token says. The key of the session is what
// requests are stamped with; the token tells a client about it. Only a read-only
// session's token is itself shown to the enclave.
type Session struct {
	// ExpiresMs is when it ends; the token says the whole second before that.
	ExpiresMs uint64
	// PublicKey is the session's key, a compressed P-256 point in hex.
	PublicKey string
	// Type is ReadWrite or ReadOnly, or the name of the session's profile.
	Type                   string
	UserID, OrganizationID string
	// ProfileID and Scope are those of the profile, empty without one.
	ProfileID, Scope string
}

const sessionHeader = `{"alg":"ES256","typ":"JWT"}`

// IssueSession makes the token of a session, signed over a double SHA-256.
func IssueSession(by *Signer, s *Session) (string, error) {
	if s.ExpiresMs < 1000 || s.PublicKey == "" || s.Type == "" || s.UserID == "" || s.OrganizationID == "" {
		return "", errors.New("a session that lacks something")
	}
	var p payload
	p = p.number("exp", s.ExpiresMs/1000).text("public_key", s.PublicKey).text("session_type", s.Type).
		text("user_id", s.UserID).text("organization_id", s.OrganizationID)
	if s.ProfileID != "" {
		p = p.text("session_profile_id", s.ProfileID).text("scope", s.Scope)
	}
	return by.token(sessionHeader, p, doubleDigest)
}

// VerifySession reads the token of a session that has not ended. The errors are
// *fault.Error with code Unauthenticated.
func VerifySession(text string, by PublicKey, nowMs uint64) (*Session, error) {
	invalid := fault.WithCode(fault.Unauthenticated, "SIGNATURE_INVALID", "could not verify session")
	t, err := parseJWS(text)
	if err != nil || t.alg != "ES256" || !by.verify(doubleDigest(t.signed), t.signature) {
		return nil, invalid
	}
	s := new(Session)
	var there, ok bool
	if s.ExpiresMs, there, ok = t.claims.seconds("exp"); !there || !ok || strings.Contains(string(t.claims["exp"]), ".") {
		return nil, invalid
	}
	for name, into := range map[string]*string{"public_key": &s.PublicKey, "session_type": &s.Type, "user_id": &s.UserID,
		"organization_id": &s.OrganizationID} {
		if *into, _, ok = t.claims.text(name); !ok || *into == "" {
			return nil, invalid
		}
	}
	for name, into := range map[string]*string{"session_profile_id": &s.ProfileID, "scope": &s.Scope} {
		if *into, _, ok = t.claims.text(name); !ok {
			return nil, invalid
		}
	}
	if nowMs >= s.ExpiresMs {
		return nil, fault.WithCode(fault.Unauthenticated, "API_KEY_EXPIRED",
			"expired api key publicKey=%s: could not find public key in organization or its parent organization: organizationId=%s", s.PublicKey, s.OrganizationID)
	}
	return s, nil
}

// Reads tells whether the token itself, in X-Session, lets its bearer query. A
// profile may have any name, so what has one is no read-only session.
func (s *Session) Reads() bool { return s.Type == ReadOnly && s.ProfileID == "" }
