package ledger

import (
	"context"
	"errors"

	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Transactions and retries. A transaction decides while it holds its organization's lock, but its first run may lack
// something: records that are not in memory, its parent's records, or an answer from outside the enclave. Its function
// then returns an *org.Retry that names what is missing. Transact gets that and runs the function again, from its first
// line, on the records of that time. Nothing else runs transactions, and requests lock organizations in no other way.
//
//	org.Retry   what Transact does before the next run
//	LoadPiece   loads the piece, with no lock held
//	LockParent  locks the organization and its parent at once, in this run and later ones
//	Redirect    locks that organization in place of the present ones
//	Prefetch    calls it, with no lock held and the organization free to be evicted
//
// A run that returns an *org.Retry may have read, computed and drawn randomness, and may have done what is safe to do
// twice: Touch, charge its rate, reserve memory for its reply. Its writes are in changes (org.Begin, NewChild) that are
// dropped with the run, and its signatures are not sent. Append is the only effect of a transaction. A transaction that
// returns an *org.Retry after Append fails and is not run again. State that survives a retry is listed in core's
// callState: fetched answers, and the checks that the request has passed. A retry cannot change either.
//
// The host decides when pieces and answers come, but not how often a transaction is run: at most maxRuns times,
// maxFetches of them after a fetch, and not after the context has ended.
const (
	maxRuns    = 1000
	maxFetches = 32
)

// ErrRestarts is the error of a transaction that was run too often.
var ErrRestarts = fault.WithCode(fault.Unavailable, "RESTARTED_TOO_OFTEN", "what the request needs changed too often while it was decided: try again")

// errDecided is the error of a transaction that returns an *org.Retry after its Append.
var errDecided = errors.New("ledger: a transaction that was decided asks to be run again")

// A Caller is the organization on whose behalf a transaction runs, with the admission control of its calls.
type Caller struct {
	// Organization is the organization whose share of the lock the transaction uses: the locked one or a
	// sub-organization of it.
	Organization org.ID
	// Admission is asked before a run waits for anything. Nil admits all.
	Admission Admission
}

// An Admission bounds the calls under way.
type Admission interface {
	// Admit refuses a call of a tenant by an error. tenant is zero before it is known. It is called for each run.
	Admit(tenant org.ID) error
}

func (c Caller) admit(tenant org.ID) error {
	if c.Admission == nil {
		return nil
	}
	return c.Admission.Admit(tenant)
}

// Transact runs f while it holds the lock of organization id, again after each *org.Retry. f's parent is nil until f has
// asked for it. ctx bounds only the waiting: a decided entry stays decided when it ends.
func (l *Ledger) Transact(ctx context.Context, id org.ID, as Caller, f func(t, parent *Locked) error) error {
	return l.transactWith(ctx, org.ID{}, id, as, f)
}

// transactWith is Transact that locks the parent, unless its id is zero, from the first run on.
func (l *Ledger) transactWith(ctx context.Context, parentID, id org.ID, as Caller, f func(t, parent *Locked) error) error {
	if l.fenced.Load() {
		return ErrFenced
	}
	if !parentID.Zero() && parentID == id {
		return errors.New("ledger: an organization is not its own parent")
	}
	var o, parent *organization // pinned in memory from run to run, except during a fetch
	drop := func() {
		if o != nil {
			l.unpin(o)
		}
		if parent != nil {
			l.unpin(parent)
		}
		o, parent = nil, nil
	}
	defer drop()
	fetches := 0
	for range maxRuns {
		var err error
		if parent == nil && !parentID.Zero() {
			if parent, err = l.open(ctx, parentID, as); err != nil {
				return err
			}
		}
		if o == nil {
			if o, err = l.open(ctx, id, as); err != nil {
				return err
			}
		}
		need, err := runOnce(ctx, o, parent, as, f)
		switch {
		case need == nil:
			return err
		case need.reason.Prefetch != nil:
			drop()
			err = need.reason.Prefetch(ctx)
			if fetches++; err == nil && fetches == maxFetches {
				return ErrRestarts
			}
		case !need.reason.Redirect.Zero():
			drop()
			id, parentID = need.reason.Redirect, org.ID{}
		case need.reason.LockParent:
			parentID = need.parent
		default:
			err = l.loadMissingPiece(ctx, need.of, as.Organization, need.reason.LoadPiece)
		}
		if err != nil {
			return err
		}
	}
	return ErrRestarts
}

// A retry is the *org.Retry of a run, with the organization that it is about.
type retry struct {
	reason *org.Retry
	of     *organization // the one whose piece is missing
	parent org.ID        // the parent to be locked
}

// runOnce is one run of f with o locked, or o and its parent. A panic of f releases the locks, too.
func runOnce(ctx context.Context, o, parentOrganization *organization, as Caller, f func(t, parent *Locked) error) (*retry, error) {
	if err := as.admit(o.tenant); err != nil {
		return nil, err
	}
	if err := acquire(ctx, o, parentOrganization, as.Organization); err != nil {
		return nil, err
	}
	defer release(o, parentOrganization)
	locked := o
	if parentOrganization != nil {
		locked = parentOrganization
	}
	if err := o.ledger.waitForProcessor(ctx, &o.slot, fairqueue.Owner{Tenant: o.tenant, Locked: locked.id, Payer: as.Organization}); err != nil {
		return nil, err
	}
	defer o.slot.Release()
	o.storeBytes = 0
	t, before := &Locked{organization: o, State: o.state}, o.count
	var parent *Locked
	if parentOrganization != nil {
		parent = &Locked{organization: parentOrganization, State: parentOrganization.state}
	}
	err := f(t, parent)
	var n *retry
	if err != nil {
		n, err = retryFor(err, t, parent)
	}
	if n != nil && o.count != before {
		n, err = nil, errDecided
	}
	o.afterRun(n)
	if parentOrganization != nil {
		parentOrganization.afterRun(n)
	}
	return n, err
}

// waitForProcessor waits until the fair queue assigns s a processor. It returns ErrBusy if ctx ends first.
func (l *Ledger) waitForProcessor(ctx context.Context, s *fairqueue.Slot, owner fairqueue.Owner) error {
	if q := l.cfg.Processors; q != nil && q.Acquire(ctx, s, owner) != nil {
		return ErrBusy
	}
	return nil
}

// retryFor returns the retry that a run's error err asks for, or the error of a run that is not repeated.
func retryFor(err error, t, parent *Locked) (*retry, error) {
	n := &retry{of: t.organization}
	if !errors.As(err, &n.reason) {
		return nil, err
	}
	if n.reason.LockParent {
		// The records name the parent, and may have to be loaded as well.
		rec, err := org.Begin(t.organization.id, t.State, 0).Organization()
		switch {
		case errors.As(err, &n.reason):
		case err != nil:
			return nil, err
		case parent != nil || rec.Parent.Zero():
			return nil, errors.New("ledger: a transaction asks for a parent that it has, or that there is not")
		default:
			n.parent = rec.Parent
		}
	}
	if parent != nil && parent.State.IsAbsent(n.reason.LoadPiece) {
		n.of = parent.organization
	}
	return n, nil
}

// afterRun counts the organization's memory after a run. lacks is the run's retry or nil.
func (o *organization) afterRun(lacks *retry) {
	full := o.countBytes()
	if full && (lacks == nil || lacks.reason.Prefetch != nil) {
		// No organization can be evicted: drop records that can be loaded again.
		o.state.DropLoaded()
		o.countBytes()
	}
}
