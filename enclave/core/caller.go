package core

import (
	"context"
	"errors"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
)

// caller is a verified stamp with the user whose it is in the newest state.
type caller struct {
	user *org.User
	home *org.Organization // the parent, for a user of it, who may read and not write
}

// stranger says that an organization does not know a key. parent is where else
// to look, if anywhere.
type stranger struct{ parent org.ID }

func (*stranger) Error() string { return "stranger" }

// authenticate finds whose key made the stamp.
func (c *Core) authenticate(tx *org.Tx, who *stamp.Caller) (*caller, error) {
	cred, err := tx.Credential(who.Curve(), who.PublicKey())
	if err != nil {
		return nil, err
	}
	if cred == nil {
		rec, err := tx.Organization()
		if err != nil {
			return nil, err
		}
		return nil, &stranger{rec.Parent}
	}
	u, err := tx.User(cred.User)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return nil, errors.New("credential without a user")
	}
	for i := range u.APIKeys {
		k := &u.APIKeys[i]
		if k.ID != cred.Key {
			continue
		}
		if k.Expired(tx.NowMs) {
			return nil, fault.Named(fault.Unauthenticated, "API_KEY_EXPIRED",
				"rpc error: code = Unauthenticated desc = expired api key publicKey=%s: could not find public key in organization or its parent organization: organizationId=%s", who.PublicKey(), tx.ID)
		}
		return &caller{user: u}, nil
	}
	return nil, errors.New("credential without a key")
}

// unknownKey is the one answer to a key that is not known, to an organization
// that is not there, and to one that is deleted: an outsider cannot tell them
// apart.
func unknownKey(id org.ID, who *stamp.Caller) error {
	return fault.Named(fault.Unauthenticated, "PUBLIC_KEY_NOT_FOUND",
		"could not find public key in organization or its parent organization: organizationId=%s publicKey=%s", id, who.PublicKey())
}

// inParent tells which user of the parent a stranger is, and the batch seen.
func (c *Core) inParent(ctx context.Context, s *stranger, id org.ID, who *stamp.Caller) (u *caller, batch uint64, err error) {
	if s.parent.Zero() {
		return nil, 0, unknownKey(id, who)
	}
	err = c.serve.ledger.Turn(ctx, s.parent, func(t *ledger.Turn) (err error) {
		batch = t.Batch()
		tx := org.Begin(t.ID(), t.State, c.now())
		if u, err = c.authenticate(tx, who); err != nil {
			return err
		}
		t.Renew()
		u.home, err = tx.Organization()
		return err
	})
	if errors.As(err, new(*stranger)) || errors.Is(err, ledger.ErrNoOrganization) {
		err = unknownKey(id, who)
	}
	return u, batch, err
}

// foreign answers a submit by a key that the organization does not know: a user
// of the parent is told that reading is all it may.
func (c *Core) foreign(ctx context.Context, r *request, a answer, err error) (answer, error) {
	var s *stranger
	errors.As(err, &s)
	_, batch, err := c.inParent(ctx, s, r.sub.Organization, r.caller)
	a.batch = max(a.batch, batch)
	if err == nil {
		err = fault.Named(fault.InvalidArgument, "ORGANIZATION_MISMATCH", "organization mismatch: request targets organization %s, voters are in %s", r.sub.Organization, s.parent)
	}
	return a, err
}
