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

// authenticate finds whose credential made the stamp. In a deleted organization
// it is nobody's.
func (c *Core) authenticate(tx *org.Tx, s *signer) (*caller, error) {
	who, err := c.credential(tx, s)
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
func (c *Core) credential(tx *org.Tx, s *signer) (*caller, error) {
	if s.session != nil {
		return c.reader(tx, s)
	}
	if s.voucher != nil {
		return c.vouched(tx, s)
	}
	curve, public := s.name()
	cred, err := tx.Credential(curve, public)
	if err != nil {
		return nil, err
	}
	if cred == nil {
		o, err := tx.Organization()
		if err != nil {
			return nil, err
		}
		return nil, &stranger{o.Parent, o.Deleted}
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
			return &caller{user: u, credential: activity.PasskeyCredential(a), passkey: a}, s.toll.pay(tx, public, c.cfg.Clock.Now())
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
			o, err := tx.Organization()
			if err != nil {
				return nil, err
			}
			return nil, &stranger{o.Parent, o.Deleted}
		}
		if k.Expired(tx.NowMs) {
			return nil, fault.Named(fault.Unauthenticated, "API_KEY_EXPIRED",
				"rpc error: code = Unauthenticated desc = expired api key publicKey=%s: could not find public key in organization or its parent organization: organizationId=%s", public, tx.ID)
		}
		payer := public
		if k.Proxy { // it is shared by all who call the proxy, which has rates of its own
			payer = ""
		}
		return &caller{user: u, credential: activity.APIKeyCredential(k), proxy: k.Proxy}, s.toll.pay(tx, payer, c.cfg.Clock.Now())
	}
	return nil, errors.New("credential without a key")
}

// unknownKey is the one answer to a credential that is not known, to an
// organization that is not there, and to one that is deleted: an outsider cannot
// tell them apart.
func unknownKey(id org.ID, s *signer) error {
	if s.session != nil {
		return noSession(id, s.session)
	}
	if s.passkey != nil {
		return fault.Named(fault.Unauthenticated, "CREDENTIAL_NOT_FOUND",
			"credential ID could not be found in organization or its parent organization: organizationId=%s", id)
	}
	_, public := s.name()
	return fault.Named(fault.Unauthenticated, "PUBLIC_KEY_NOT_FOUND",
		"could not find public key in organization or its parent organization: organizationId=%s publicKey=%s", id, public)
}

// below are the organizations under tx's in which the signer's credential can
// stamp, two at most.
func (s *signer) below(tx *org.Tx) ([]org.ID, error) {
	if s.session != nil {
		return nil, nil
	}
	if s.voucher != nil {
		return s.voucher.below(tx)
	}
	curve, public := s.name()
	return tx.ChildrenBy(org.ChildCredential, curve+":"+public, nil, 2)
}

// errRecovery refuses the key of a recovery whatever it is not for.
var errRecovery = fault.Named(fault.PermissionDenied, "FORBIDDEN", "the key of a recovery can only stamp recover_user")

var errConflict = fault.Named(fault.Unauthenticated, "CREDENTIAL_CONFLICT", "more than one suborg associated with a public key")

// inParent tells which user of the parent a stranger is, and the batch seen. The
// parent's allowlists bind its users below as they do at home.
func (c *Core) inParent(ctx context.Context, s *stranger, id org.ID, who *signer, from string) (u *caller, batch uint64, err error) {
	if s.parent.Zero() || who.session != nil || who.voucher != nil {
		return nil, 0, unknownKey(id, who)
	}
	err = c.turn(ctx, s.parent, who, func(t *ledger.Turn) (err error) {
		batch = t.Batch()
		tx := org.Begin(t.ID(), t.State, c.now())
		if u, err = c.authenticate(tx, who); err != nil {
			return err
		}
		t.Renew()
		if err = c.allowed(tx, u, from); err != nil {
			return err
		}
		u.home, err = tx.Organization()
		return err
	})
	switch {
	case errors.As(err, new(*stranger)) || errors.Is(err, ledger.ErrNoOrganization):
		err = unknownKey(id, who)
	case err == nil && s.deleted: // who may read is told
		err = fault.Named(fault.NotFound, "ORGANIZATION_NOT_FOUND", "no organization found with the given ID: %s", id)
	}
	return u, batch, err
}

// foreign answers a submit by a credential that the organization does not know: a
// user of the parent is told that reading is all it may.
func (c *Core) foreign(ctx context.Context, r *request, a answer, err error) (answer, error) {
	var s *stranger
	errors.As(err, &s)
	_, batch, err := c.inParent(ctx, s, r.sub.Organization, r.signer, r.from)
	a.batch = max(a.batch, batch)
	if err == nil {
		err = fault.Named(fault.InvalidArgument, "ORGANIZATION_MISMATCH", "organization mismatch: request targets organization %s, voters are in %s", r.sub.Organization, s.parent)
	}
	return a, err
}
