package core

import (
	"context"
	"errors"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// caller is a verified stamp with the user whose it is in the newest state.
type caller struct {
	user       *org.User
	credential org.VoteCredential
	passkey    *org.Authenticator // nil for a key
	home       *org.Organization  // the parent, for a user of it, who may read and not write
	proxy      bool               // the auth proxy
}

// stranger says that an organization does not know a key. parent is where else
// to look, if anywhere.
type stranger struct {
	parent  org.ID
	deleted bool
}

func (*stranger) Error() string { return "stranger" }

// strangerTo says that tx's organization does not know a key.
func strangerTo(tx *org.Tx) error {
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	return &stranger{o.Parent, o.Deleted}
}

// authenticate finds whose credential made the stamp. In a deleted organization
// it is nobody's.
func (s *requester) authenticate(tx *org.Tx) (*caller, error) {
	who, err := s.credential(tx)
	if err != nil {
		return nil, err
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if o.Deleted {
		return nil, &stranger{o.Parent, true}
	}
	return who, nil
}

// credential is authenticate where deleted organizations still know their own:
// who deleted one may hear so again.
func (s *requester) credential(tx *org.Tx) (*caller, error) {
	if s.session != nil {
		return s.sessionUser(tx)
	}
	if s.voucher != nil {
		return s.voucherUser(tx)
	}
	curve, public := s.name()
	cred, err := tx.Credential(curve, public)
	if err != nil {
		return nil, err
	}
	if cred == nil {
		return nil, strangerTo(tx)
	}
	u, err := tx.User(cred.User)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return nil, errors.New("credential without a user")
	}
	if s.passkey != nil {
		for i := range u.Authenticators {
			a := &u.Authenticators[i]
			if a.ID != cred.Key {
				continue
			}
			if err := s.verify(tx, a); err != nil {
				return nil, err
			}
			return &caller{user: u, credential: activity.PasskeyCredential(a), passkey: a}, s.visit.pay(tx, public)
		}
		return nil, errors.New("credential without an authenticator")
	}
	for i := range u.APIKeys {
		k := &u.APIKeys[i]
		if k.ID != cred.Key {
			continue
		}
		// The auth proxy's key is good at the proxy's door and nowhere else, and no
		// other is good there.
		if k.Proxy != s.proxy {
			return nil, strangerTo(tx)
		}
		if k.Expired(tx.NowMs) {
			return nil, fault.WithCode(fault.Unauthenticated, "API_KEY_EXPIRED",
				"rpc error: code = Unauthenticated desc = expired api key publicKey=%s: could not find public key in organization or its parent organization: organizationId=%s", public, tx.ID)
		}
		payer := public
		if k.Proxy { // it is shared by all who call the proxy, which has rates of its own
			payer = ""
		}
		return &caller{user: u, credential: activity.APIKeyCredential(k), proxy: k.Proxy}, s.visit.pay(tx, payer)
	}
	return nil, errors.New("credential without a key")
}

// unknownKey is the one answer to a credential that is not known, to an
// organization that is not there, and to one that is deleted: an outsider cannot
// tell them apart.
func unknownKey(id org.ID, s *requester) error {
	if s.session != nil {
		return noSession(id, s.session)
	}
	if s.passkey != nil {
		return fault.WithCode(fault.Unauthenticated, "CREDENTIAL_NOT_FOUND",
			"credential ID could not be found in organization or its parent organization: organizationId=%s", id)
	}
	_, public := s.name()
	return fault.WithCode(fault.Unauthenticated, "PUBLIC_KEY_NOT_FOUND",
		"could not find public key in organization or its parent organization: organizationId=%s publicKey=%s", id, public)
}

// below are the organizations under tx's in which the requester's credential can
// stamp, two at most.
func (s *requester) below(tx *org.Tx) ([]org.ID, error) {
	if s.session != nil {
		return nil, nil
	}
	if s.voucher != nil {
		return s.voucher.below(tx)
	}
	curve, public := s.name()
	return tx.ChildrenBy(org.ChildCredential, curve+":"+public, nil, 2)
}

// descend asks for the one organization below tx's that knows the requester's
// credential, where tx's does not and there is one.
func (s *requester) descend(tx *org.Tx) (id org.ID, err error) {
	below, err := s.below(tx)
	switch {
	case err != nil || len(below) == 0:
		return id, err
	case len(below) > 1:
		return id, errConflict
	}
	return below[0], &org.Missing{Organization: below[0]}
}

// errRecovery refuses the key of a recovery whatever it is not for.
var errRecovery = fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "the key of a recovery can only stamp recover_user")

var errConflict = fault.WithCode(fault.Unauthenticated, "CREDENTIAL_CONFLICT", "more than one suborg associated with a public key")

// inParent tells which user of the parent a stranger is. The parent's allowlists bind
// its users below as they do at home.
func (s *requester) inParent(ctx context.Context, unknown *stranger, id org.ID, from string) (u *caller, err error) {
	if unknown.parent.Zero() || s.session != nil || s.voucher != nil {
		return nil, unknownKey(id, s)
	}
	err = s.visit.Turn(ctx, unknown.parent, func(t *ledger.Turn) (err error) {
		tx := org.Begin(t.ID(), t.State, s.visit.core.now())
		if u, err = s.authenticate(tx); err != nil {
			return err
		}
		t.Renew()
		if err = checkAllowlist(tx, u, from); err != nil {
			return err
		}
		u.home, err = tx.Organization()
		return err
	})
	switch {
	case errors.As(err, new(*stranger)) || errors.Is(err, ledger.ErrNoOrganization):
		err = unknownKey(id, s)
	case err == nil && unknown.deleted: // who may read is told
		err = fault.WithCode(fault.NotFound, "ORGANIZATION_NOT_FOUND", "no organization found with the given ID: %s", id)
	}
	return u, err
}

// foreign refuses a submit by a credential that the organization does not know: a
// user of the parent is told that reading is all it may.
func (r *request) foreign(ctx context.Context, unknown *stranger) error {
	if _, err := r.requester.inParent(ctx, unknown, r.organization, r.from); err != nil {
		return err
	}
	return fault.WithCode(fault.InvalidArgument, "ORGANIZATION_MISMATCH", "organization mismatch: request targets organization %s, voters are in %s", r.organization, unknown.parent)
}
