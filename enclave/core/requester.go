package core

import (
	"context"
	"encoding/hex"
	"errors"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/webauthn"
	"cloister/shared/wire"
)

// requester is who stamped a request, as far as it is known. An API key has proven
// itself; a passkey waits for its public key, which is in the organization's
// records, and a key that is nobody's for the token that vouches for it.
type requester struct {
	visit   *visit
	caller  *stamp.Caller // once verified
	passkey *stamp.Passkey
	session *login.Session // of who only reads; none of the others then
	told    stamp.Body     // what the host says that the session asks
	// attested is a stamp by nobody's key, for which a token vouches.
	attested *stamp.Attested
	voucher  voucher
	proxy    bool // the enclave itself has stamped, with the auth proxy's key

	checked *org.Authenticator // whose key caller was verified with
	counter uint32             // that its authenticator told, 0 if it does not count
}

// stampHead are the headers of a call, as stamps are read from them.
func stampHead(call *wire.Call) []stamp.Header {
	head := make([]stamp.Header, len(call.Head))
	for i, h := range call.Head {
		head[i] = stamp.Header(h)
	}
	return head
}

// readStamp finds the stamp of a call and verifies it as far as it can be.
func (v *visit) readStamp(call *wire.Call) (*requester, error) {
	if token, ok := inSession(call); ok {
		return v.readSession(call, token)
	}
	caller, passkey, attested, err := v.core.stamps.Read(stampHead(call), call.Body)
	if err != nil {
		return nil, err
	}
	s := &requester{visit: v, caller: caller, passkey: passkey, attested: attested, proxy: call.Door == wire.DoorProxy}
	if attested != nil {
		if call.Door != wire.DoorSubmit {
			return nil, errAttested
		}
		s.voucher, err = v.readVoucher(attested)
	}
	return s, err
}

// body is what the requester answers for, once that is known.
func (s *requester) body() (stamp.Body, error) {
	switch {
	case s.session != nil:
		return s.told, nil
	case s.caller == nil:
		return stamp.Body{}, errors.New("a body that nobody answers for yet")
	}
	return s.caller.Body(), nil
}

// where tells where the requester is to be looked for, whether the body is verified or not.
func (s *requester) where() (w stamp.Where, id org.ID, err error) {
	switch {
	case s.session != nil:
		w, err = s.told.Where()
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

// name is under what an organization knows the requester's credential.
func (s *requester) name() (curve, publicKey string) {
	if s.session != nil {
		return "", s.session.PublicKey
	}
	if s.passkey != nil {
		return org.PasskeyCurve, hex.EncodeToString(s.passkey.CredentialID())
	}
	if s.attested != nil {
		return "", s.attested.PublicKey()
	}
	return s.caller.Curve(), s.caller.PublicKey()
}

// verify checks a passkey's stamp with the authenticator that the records name.
func (s *requester) verify(tx *org.Tx, a *org.Authenticator) error {
	if s.checked != nil && s.checked.ID == a.ID && string(s.checked.PublicKey) == string(a.PublicKey) {
		return nil // in an earlier turn of this request
	}
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	var parent *org.Organization
	if !o.Parent.Zero() {
		if parent = s.visit.origins[o.Parent]; parent == nil {
			return &org.Missing{Fetch: func(ctx context.Context) error { return s.visit.learnOrigins(ctx, o.Parent) }}
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

// learnOrigins keeps a parent's records, for its rules on origins.
func (v *visit) learnOrigins(ctx context.Context, parent org.ID) error {
	return v.Turn(ctx, parent, func(t *ledger.Turn) error {
		o, err := org.Begin(t.ID(), t.State, v.core.now()).Organization()
		if err == nil {
			if v.origins == nil {
				v.origins = map[org.ID]*org.Organization{}
			}
			v.origins[parent] = o
		}
		return err
	})
}
