package login

import (
	"errors"

	"cloister/enclave/internal/fault"
)

// Types of sessions.
const (
	ReadWrite = "SESSION_TYPE_READ_WRITE"
	ReadOnly  = "SESSION_TYPE_READ_ONLY"
)

// A Session is the content of a session's token. Requests are stamped with the session's key; the
// token tells a client about it. Only the token of a read-only session is shown to the enclave.
type Session struct {
	ExpiresMs              uint64 // rounded down to a whole second in the token
	PublicKey              string // the session's key, a compressed P-256 point in hex
	Type                   string // ReadWrite or ReadOnly, or the name of the session's profile
	UserID, OrganizationID string
	ProfileID, Scope       string // of the profile, empty without one
}

func (s *Session) isComplete() bool {
	return s.PublicKey != "" && s.Type != "" && s.UserID != "" && s.OrganizationID != ""
}

const sessionHeader = `{"alg":"ES256","typ":"JWT"}`

// IssueSession makes the token of a session, signed over a double SHA-256.
func IssueSession(by *Signer, s *Session) (string, error) {
	if s.ExpiresMs < 1000 || !s.isComplete() {
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

// VerifySession reads the token of a session that has not ended. Errors are *fault.Error with
// code Unauthenticated.
func VerifySession(text string, by PublicKey, nowMs uint64) (*Session, error) {
	invalid := fault.WithCode(fault.Unauthenticated, "SIGNATURE_INVALID", "could not verify session")
	t, err := parseJWS(text)
	if err != nil || t.alg != "ES256" || !by.verify(doubleDigest(t.signed), t.signature) {
		return nil, invalid
	}
	s := new(Session)
	var ok bool
	if s.ExpiresMs, ok = t.claims.wholeSeconds("exp"); !ok {
		return nil, invalid
	}
	if !t.claims.readTexts(map[string]*string{"public_key": &s.PublicKey, "session_type": &s.Type, "user_id": &s.UserID, "organization_id": &s.OrganizationID,
		"session_profile_id": &s.ProfileID, "scope": &s.Scope}) || !s.isComplete() {
		return nil, invalid
	}
	if nowMs >= s.ExpiresMs {
		return nil, fault.WithCode(fault.Unauthenticated, "API_KEY_EXPIRED",
			"expired api key publicKey=%s: could not find public key in organization or its parent organization: organizationId=%s", s.PublicKey, s.OrganizationID)
	}
	return s, nil
}

// Reads tells whether the token itself, in X-Session, lets its bearer query. A profile may be
// called like ReadOnly, so a session with a profile does not count.
func (s *Session) Reads() bool { return s.Type == ReadOnly && s.ProfileID == "" }
