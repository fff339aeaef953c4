package ledger

import (
	"context"
	"errors"

	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// A step is decided in one turn, but not always at the first try: what it reads may not be in
// memory, may be its parent's, or may have to be asked for outside. Then it gives up with an
// *org.Missing that says which. Step gets that and runs the step again, from its first line,
// over the records as they then are. No other loop does, and there is no other way to a turn.
//
//	Missing       what Step does before the next run
//	Piece         loads the piece, with no turn held
//	Parent        takes the turns of the organization and its parent at once, from here on
//	Organization  takes that one's turn in place of those that it took
//	Fetch         calls it, with no turn held and the organization free to leave memory
//
// A run that ends so may read, compute, draw randomness and refuse, and do what may be done
// twice: Renew, pay its toll, make room for its reply. What it writes goes into changes
// (org.Begin, NewChild) that are dropped with the run, and nobody sees what it signs. A step's
// one effect is Append. A step that lacks something after it fails and is not run again. What
// its owner keeps from run to run is listed in one place (in core, type kept): answers to what
// was fetched, and what the request has proven, which no run could make different.
//
// The host decides when pieces and answers come, but not how often a step is run: at most
// maxRuns times, maxFetches of them after a fetch, and not after the context has ended.
const (
	maxRuns    = 1000
	maxFetches = 32
)

// ErrRestarts ends a step that was run too often.
var ErrRestarts = fault.WithCode(fault.Unavailable, "RESTARTED_TOO_OFTEN", "what the request needs changed too often while it was decided: try again")

// errDecided ends a step that lacks something after its Append.
var errDecided = errors.New("ledger: a step that was decided asks to be run again")

// A Caller is on whose behalf a step is run.
type Caller struct {
	// By is whose share of the turns it takes: the organization's or that of one below it.
	By org.ID
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

// Step runs f in the organization's turn. above is nil until f has asked for its parent. The
// context bounds the waiting, not an entry decided.
func (l *Ledger) Step(ctx context.Context, id org.ID, as Caller, f func(t, above *Turn) error) error {
	return l.stepWith(ctx, org.ID{}, id, as, f)
}

// stepWith is Step, with the parent from the first run on if one is named.
func (l *Ledger) stepWith(ctx context.Context, parent, id org.ID, as Caller, f func(t, above *Turn) error) error {
	if l.fenced.Load() {
		return ErrFenced
	}
	if !parent.Zero() && parent == id {
		return errors.New("ledger: an organization is not its own parent")
	}
	var o, up *organization // kept in memory from run to run, except during a fetch
	drop := func() {
		if o != nil {
			l.leave(o)
		}
		if up != nil {
			l.leave(up)
		}
		o, up = nil, nil
	}
	defer drop()
	fetches := 0
	for range maxRuns {
		var err error
		if up == nil && !parent.Zero() {
			if up, err = l.open(ctx, parent, as); err != nil {
				return err
			}
		}
		if o == nil {
			if o, err = l.open(ctx, id, as); err != nil {
				return err
			}
		}
		need, err := run(ctx, o, up, as, f)
		switch {
		case need == nil:
			return err
		case need.missing.Fetch != nil:
			drop()
			err = need.missing.Fetch(ctx)
			if fetches++; err == nil && fetches == maxFetches {
				return ErrRestarts
			}
		case !need.missing.Organization.Zero():
			drop()
			id, parent = need.missing.Organization, org.ID{}
		case need.missing.Parent:
			parent = need.parent
		default:
			err = l.fetch(ctx, need.of, as.By, need.missing.Piece)
		}
		if err != nil {
			return err
		}
	}
	return ErrRestarts
}

// A need is what a run lacked.
type need struct {
	missing *org.Missing
	of      *organization // whose piece
	parent  org.ID        // whose turn
}

// run is one turn of o, or of o and its parent. A panic of f ends it like an error.
func run(ctx context.Context, o, up *organization, as Caller, f func(t, above *Turn) error) (*need, error) {
	if err := as.admit(o.tenant); err != nil {
		return nil, err
	}
	if err := enter(ctx, o, up, as.By); err != nil {
		return nil, err
	}
	defer leave(o, up)
	turn := o
	if up != nil {
		turn = up
	}
	if err := o.ledger.compute(ctx, &o.slot, fairqueue.Owner{Tenant: o.tenant, Turn: turn.id, Payer: as.By}); err != nil {
		return nil, err
	}
	defer o.slot.Leave()
	o.stored = 0
	t, before := &Turn{organization: o, State: o.state}, o.count
	var above *Turn
	if up != nil {
		above = &Turn{organization: up, State: up.state}
	}
	err := f(t, above)
	var n *need
	if err != nil {
		n, err = lacks(err, t, above)
	}
	if n != nil && o.count != before {
		n, err = nil, errDecided
	}
	o.settle(n)
	if up != nil {
		up.settle(n)
	}
	return n, err
}

// compute waits for a processor.
func (l *Ledger) compute(ctx context.Context, s *fairqueue.Slot, owner fairqueue.Owner) error {
	if q := l.cfg.Processors; q != nil && q.Enter(ctx, s, owner) != nil {
		return ErrBusy
	}
	return nil
}

// lacks is what a run that ended with err lacked. A run that lacked nothing has an error.
func lacks(err error, t, above *Turn) (*need, error) {
	n := &need{of: t.organization}
	if !errors.As(err, &n.missing) {
		return nil, err
	}
	if n.missing.Parent {
		// The records name the parent, and may have to be loaded as well.
		rec, err := org.Begin(t.organization.id, t.State, 0).Organization()
		switch {
		case errors.As(err, &n.missing):
		case err != nil:
			return nil, err
		case above != nil || rec.Parent.Zero():
			return nil, errors.New("ledger: a step asks for a parent that it has, or that there is not")
		default:
			n.parent = rec.Parent
		}
	}
	if above != nil && above.State.Misses(n.missing.Piece) {
		n.of = above.organization
	}
	return n, nil
}

// settle counts what a run has left in memory.
func (o *organization) settle(lacks *need) {
	full := o.account()
	if full && (lacks == nil || lacks.missing.Fetch != nil) {
		// Nobody can be evicted: drop what can be loaded again.
		o.state.Shed()
		o.account()
	}
}
