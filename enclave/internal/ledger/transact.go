package ledger

import (
	"context"
	"errors"

	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// A transaction decides under the lock of its organization, but not always at the first run: what it reads may
// not be in memory, may be its parent's, or may have to be fetched from outside. Then its function returns an
// *org.Retry that says which. Transact gets that and runs the function again, from its first line, over the
// records as they then are. No other loop does, and there is no other way to an organization's lock.
//
//	org.Retry   what Transact does before the next run
//	LoadPiece   loads the piece, with no lock held
//	LockParent  locks the organization and its parent at once, from here on
//	Redirect    locks that organization in place of those that it had
//	Prefetch    calls it, with no lock held and the organization free to be evicted
//
// A run that ends so may read, compute, draw randomness and refuse, and do what may be done twice: Touch,
// charge its rate, reserve memory for its reply. What it writes goes into changes (org.Begin, NewChild) that
// are dropped with the run, and nobody sees what it signs. Append is the one effect of a transaction. One that
// asks for something after it fails and is not run again. State that survives a retry is listed in core's
// callState: fetched answers, and what the request has already proven. A retry cannot change either.
//
// The host decides when pieces and answers come, but not how often a transaction is run: at most maxRuns times,
// maxFetches of them after a fetch, and not after the context has ended.
const (
	maxRuns    = 1000
	maxFetches = 32
)

// ErrRestarts ends a transaction that was run too often.
var ErrRestarts = fault.WithCode(fault.Unavailable, "RESTARTED_TOO_OFTEN", "what the request needs changed too often while it was decided: try again")

// errDecided ends a transaction that asks for something after its Append.
var errDecided = errors.New("ledger: a transaction that was decided asks to be run again")

// A Caller is on whose behalf a transaction runs.
type Caller struct {
	// Organization is whose share of the lock it takes: the locked organization's or that of a sub-organization
	// of it.
	Organization org.ID
	// Admission is asked before a run waits for anything. Nil: nobody is refused.
	Admission Admission
}

// An Admission says whether another call may be under way.
type Admission interface {
	// Admit refuses a call for a tenant, whose id is zero as long as it is not known. It is called for each run.
	Admit(tenant org.ID) error
}

func (c Caller) admit(tenant org.ID) error {
	if c.Admission == nil {
		return nil
	}
	return c.Admission.Admit(tenant)
}

// Transact runs f while it holds the organization's lock. parent is nil until f has asked for it. The context
// bounds the waiting, not an entry decided.
func (l *Ledger) Transact(ctx context.Context, id org.ID, as Caller, f func(t, parent *Locked) error) error {
	return l.transactWith(ctx, org.ID{}, id, as, f)
}

// transactWith is Transact, with the parent from the first run on if one is named.
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

// A retry is what a run asked for.
type retry struct {
	reason *org.Retry
	of     *organization // whose piece
	parent org.ID        // to be locked
}

// runOnce is one run over o, or over o and its parent. A panic of f ends it like an error.
func runOnce(ctx context.Context, o, parentOrganization *organization, as Caller, f func(t, parent *Locked) error) (*retry, error) {
	if err := as.admit(o.tenant); err != nil {
		return nil, err
	}
	if err := acquire(ctx, o, parentOrganization, as.Organization); err != nil {
		return nil, err
	}
	defer release(o, parentOrganization)
	turn := o
	if parentOrganization != nil {
		turn = parentOrganization
	}
	if err := o.ledger.waitForProcessor(ctx, &o.slot, fairqueue.Owner{Tenant: o.tenant, Locked: turn.id, Payer: as.Organization}); err != nil {
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

// waitForProcessor waits for a processor.
func (l *Ledger) waitForProcessor(ctx context.Context, s *fairqueue.Slot, owner fairqueue.Owner) error {
	if q := l.cfg.Processors; q != nil && q.Acquire(ctx, s, owner) != nil {
		return ErrBusy
	}
	return nil
}

// retryFor is what a run that ended with err asked for. A run that asked for nothing has an error.
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

// afterRun counts what a run has left in memory.
func (o *organization) afterRun(lacks *retry) {
	full := o.countBytes()
	if full && (lacks == nil || lacks.reason.Prefetch != nil) {
		// Nobody can be evicted: drop what can be loaded again.
		o.state.DropLoaded()
		o.countBytes()
	}
}
