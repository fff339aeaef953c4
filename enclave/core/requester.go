package core

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/webauthn"
	"cloister/shared/wire"
)

// requester is the stamp of a request, as far as it is verified. The stamp of an API key contains its public key. A passkey is
// verified with the public key in the organization's records; a key of no user with the token that vouches for
// it.
type requester struct {
	call     *callState
	caller   *stamp.Caller // once verified
	passkey  *stamp.Passkey
	attested *stamp.Attested // by a key of no user; voucher is its token
	voucher  voucher
	session  *login.Session // a read-only session; caller, passkey, attested and voucher are nil then
	hostBody stamp.HostBody // the body of a session's query, as the host claims it
	proxy    bool           // the enclave itself has stamped, with the auth proxy's key

	checked *org.Authenticator // the one that caller was verified with
	counter uint32             // signature counter of its authenticator, 0 if it has none
}

// stampHead converts the headers of a call for package stamp.
func stampHead(call *wire.Call) []stamp.Header {
	head := make([]stamp.Header, len(call.Head))
	for i, h := range call.Head {
		head[i] = stamp.Header(h)
	}
	return head
}

// readStamp parses the stamp of a call and verifies it as far as possible without records.
func (v *callState) readStamp(call *wire.Call) (*requester, error) {
	if token, ok := inSession(call); ok {
		return v.readSession(call, token)
	}
	caller, passkey, attested, err := v.core.stamps.Read(stampHead(call), call.Body)
	if err != nil {
		return nil, err
	}
	s := &requester{call: v, caller: caller, passkey: passkey, attested: attested, proxy: call.Endpoint == wire.EndpointProxy}
	if attested != nil {
		if call.Endpoint != wire.EndpointSubmit {
			return nil, errAttested
		}
		s.voucher, err = v.readVoucher(attested)
	}
	return s, err
}

// sessionHeader carries the token of a read-only session in place of a stamp.
const sessionHeader = "X-Session"

// callerHeaders are the headers that identify the caller. A call has exactly one of them.
var callerHeaders = []string{sessionHeader, "X-Stamp", "X-Stamp-WebAuthn", "X-Stamp-Attested"}

// inSession returns the session token of a call without a stamp. Package stamp refuses a call with more than one of
// callerHeaders.
func inSession(call *wire.Call) (token string, ok bool) {
	for _, h := range call.Head {
		if !slices.ContainsFunc(callerHeaders, func(name string) bool { return strings.EqualFold(h.Name, name) }) {
			continue
		}
		if ok || !strings.EqualFold(h.Name, sessionHeader) {
			return "", false
		}
		token, ok = h.Value, true
	}
	return token, ok
}

// readSession verifies the token of a read-only session, which is valid for queries only.
func (v *callState) readSession(call *wire.Call, token string) (*requester, error) {
	if call.Endpoint != wire.EndpointQuery {
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
	return &requester{call: v, session: s, hostBody: stamp.NewHostBody(call.Body)}, nil
}

// body returns the body that the requester has stamped, once that is verified.
func (s *requester) body() (stamp.Body, error) {
	if s.caller == nil {
		return stamp.Body{}, errors.New("a body that nobody answers for yet")
	}
	return s.caller.Body(), nil
}

// organizationToSearch returns the organization in which to look for the requester, from a body that may be unverified.
func (s *requester) organizationToSearch() (w stamp.Where, id org.ID, err error) {
	switch {
	case s.session != nil:
		w, err = s.hostBody.Where()
	case s.caller != nil:
		w, err = s.caller.Body().Where()
	case s.passkey != nil:
		w, err = s.passkey.Unverified().Where()
	default:
		w, err = s.attested.Unverified().Where()
	}
	if err == nil {
		id, err = activity.ParseOrganization(w.Organization)
	}
	return w, id, err
}

// credentialName returns curve and public key by which an organization finds the requester's credential.
func (s *requester) credentialName() (curve, publicKey string) {
	switch {
	case s.session != nil:
		return "", s.session.PublicKey
	case s.passkey != nil:
		return org.PasskeyCurve, hex.EncodeToString(s.passkey.CredentialID())
	case s.attested != nil:
		return "", s.attested.PublicKey()
	}
	return s.caller.Curve(), s.caller.PublicKey()
}

// verify verifies a passkey's stamp with the authenticator in the records.
func (s *requester) verify(tx *org.Tx, a *org.Authenticator) error {
	if s.checked != nil && s.checked.ID == a.ID && string(s.checked.PublicKey) == string(a.PublicKey) {
		return nil // by an earlier attempt
	}
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	var parent *org.Organization
	if !o.Parent.Zero() {
		if parent = s.call.origins[o.Parent]; parent == nil {
			return &org.Retry{Prefetch: func(ctx context.Context) error { return s.call.learnOrigins(ctx, o.Parent) }}
		}
	}
	counter, err := tx.Counter(a.ID)
	if err != nil {
		return err
	}
	cred := &webauthn.Credential{ID: a.CredentialID, PublicKey: a.PublicKey, RPIDHash: a.RPIDHash, Origin: a.Origin}
	caller, n, err := s.passkey.Verify(cred, counter, user.WebAuthnOrigins(o, parent))
	if err != nil {
		return err
	}
	s.caller, s.checked, s.counter = caller, a, n
	return nil
}

// learnOrigins loads a parent's record, for its rules on the origins of passkeys.
func (v *callState) learnOrigins(ctx context.Context, parent org.ID) error {
	return v.WithLock(ctx, parent, func(t *ledger.Locked) error {
		o, err := t.Begin(v.core.now()).Organization()
		if err == nil {
			if v.origins == nil {
				v.origins = map[org.ID]*org.Organization{}
			}
			v.origins[parent] = o
		}
		return err
	})
}
