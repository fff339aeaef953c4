package core

import (
	"context"
	"errors"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// errAtOnce refuses what a parent's user asks for in a sub-organization and what is
// not allowed at once: the sub-organization's activities are its own users' to vote
// on.
var errAtOnce = fault.New(fault.FailedPrecondition,
	"the parent organization's policies ask for more than one approval or factor: what its users start in a sub-organization must be allowed at once")

// actFromAbove is act for a user of the parent, who alone is known there. The
// activity is the sub-organization's; who may ask for it, the parent's users and
// policies say.
func (r *request) actFromAbove(ctx context.Context, unknown error) (a answer, old *found, err error) {
	var known *stranger
	if errors.As(unknown, &known); known.parent.Zero() || known.deleted {
		return a, nil, unknown
	}
	err = until(ctx, func() error {
		return r.c.pair(ctx, known.parent, r.sub.Organization, r.signer, func(t, above *ledger.Turn) error {
			a, old = answer{batch: seen(t, above)}, nil
			tx, law, who, f, err := r.enterFromAbove(t, above)
			if err != nil || f != nil {
				old = f
				return err
			}
			a, err = r.take(t, above, tx, law, who, a.batch)
			return err
		})
	})
	return a, old, err
}

// enterFromAbove is enter where the credential is the parent's: law are the
// parent's records.
func (r *request) enterFromAbove(t, above *ledger.Turn) (tx, law *org.Tx, who *caller, f *found, err error) {
	tx, law = org.Begin(t.ID(), t.State, r.c.now()), org.Begin(above.ID(), above.State, r.c.now())
	if who, err = r.c.authenticate(law, r.signer); err != nil {
		return nil, nil, nil, nil, err
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if o.Deleted {
		return nil, nil, nil, nil, &stranger{o.Parent, true}
	}
	above.Renew()
	if err := r.c.allowed(law, who, r.from); err != nil {
		return nil, nil, nil, nil, err
	}
	if err := r.hold(tx, int64(len(r.signer.body))); err != nil {
		return nil, nil, nil, nil, err
	}
	if f, err = r.seen(t, tx, who); f != nil || err != nil {
		return nil, nil, nil, f, err
	}
	return tx, law, who, nil, r.starts(law, who)
}
