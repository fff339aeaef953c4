package core

import (
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/shared/wire"
)

// sessionHeader carries the token of a read-only session in place of a stamp.
const sessionHeader = "X-Session"

// stampHeaders are the other headers that say who is calling. A call has one.
var stampHeaders = []string{"X-Stamp", "X-Stamp-WebAuthn", "X-Stamp-Attested"}

// inSession tells whether a call is made in a session and not stamped. Where more
// than one header says who is calling, it is left to the stamps to refuse it.
func inSession(call *wire.Call) (token string, ok bool) {
	for _, h := range call.Head {
		for _, name := range stampHeaders {
			if strings.EqualFold(h.Name, name) {
				return "", false
			}
		}
		if strings.EqualFold(h.Name, sessionHeader) {
			if ok {
				return "", false
			}
			token, ok = h.Value, true
		}
	}
	return token, ok
}

// readSession verifies the token of a read-only session. It speaks for queries and
// for nothing else.
func (v *visit) readSession(call *wire.Call, token string) (*requester, error) {
	if call.Door != wire.DoorQuery {
		return nil, fault.WithCode(fault.Unauthenticated, "SIGNATURE_MISSING", "no valid authentication signature found for request: a session token can only query")
	}
	if len(token) > stamp.MaxHeader {
		return nil, fault.WithCode(fault.Unauthenticated, "SIGNATURE_INVALID", "could not verify session")
	}
	s, err := login.VerifySession(token, v.core.serving.sessions.Public(), v.core.now())
	if err != nil {
		return nil, err
	}
	if !s.Reads() {
		return nil, fault.WithCode(fault.Unauthenticated, "SIGNATURE_INVALID", "could not verify session: it is not read-only, stamp with its key")
	}
	return &requester{visit: v, session: s, told: stamp.BodyFromHost(call.Body)}, nil
}

// sessionUser is the user of a read-only session, in the session's own organization
// only. The session ends with the user, and with the credential that asked for it.
func (s *requester) sessionUser(tx *org.Tx) (*caller, error) {
	if s.session.OrganizationID != tx.ID.String() {
		return nil, &stranger{}
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	id, err := org.ParseID(s.session.UserID)
	if err != nil {
		return nil, err // the enclave wrote it
	}
	u, err := tx.User(id)
	if err != nil {
		return nil, err
	}
	who := &caller{user: u}
	key, passkey := auth.CredentialOf(u, s.session.PublicKey, tx.NowMs)
	switch {
	case key != nil:
		who.credential = activity.APIKeyCredential(key)
	case passkey != nil:
		who.credential, who.passkey = activity.PasskeyCredential(passkey), passkey
	default:
		return nil, &stranger{deleted: o.Deleted}
	}
	return who, s.visit.pay(tx, s.session.PublicKey)
}

// noSession is the one answer to a session of another organization, of a user who
// is gone, and of a credential that is gone.
func noSession(id org.ID, s *login.Session) error {
	return fault.WithCode(fault.Unauthenticated, "PUBLIC_KEY_NOT_FOUND",
		"could not find public key in organization or its parent organization: organizationId=%s publicKey=%s", id, s.PublicKey)
}
