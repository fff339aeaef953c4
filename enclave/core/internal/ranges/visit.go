package ranges

import (
	"context"
	"errors"
	"time"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// A Visit is what one call sees of the deployment, from its first look to its reply. It
// stays in the ledger of the first organization that it looked at. A range that is given
// away and taken back meanwhile has another ledger, whose batches count anew.
type Visit struct {
	ranges *Ranges
	at     *owned // nil before the first look
	By     org.ID // the first organization that it looked at: on whose behalf it waits
	Batch  uint64 // the newest seen: no reply leaves before that is stored
	// Admission is asked before the call waits for a step; nil refuses nobody.
	Admission ledger.Admission
	// What the call has cost so far.
	Computed time.Duration // processor time of its steps
	Stored   uint32        // bytes that the store needs for its entries; see ledger.Turn
	strict   bool          // nothing leaves before witnesses have cosigned what was seen, since one of the organizations wants it so
}

// Visit begins a call's.
func (s *Ranges) Visit() *Visit { return &Visit{ranges: s} }

// Look returns an organization's ledger once this enclave may answer for it. Errors are
// *Moved, ErrNoOrganization for one in another range, and those of ledger.Serving.
func (v *Visit) Look(ctx context.Context, id org.ID) (*ledger.Ledger, error) {
	r := wire.RangeOf(wire.ID(id), v.ranges.cfg.Count)
	if v.at == nil {
		o, err := v.ranges.at(r)
		if err == nil {
			err = o.ledger.Serving(ctx)
		}
		if err != nil {
			return nil, err
		}
		v.at, v.By = o, id
	}
	if v.at.of != r {
		return nil, ledger.ErrNoOrganization
	}
	return v.at.ledger, nil
}

// Ledger is that in which the visit is, nil before its first look.
func (v *Visit) Ledger() *ledger.Ledger {
	if v.at == nil {
		return nil
	}
	return v.at.ledger
}

// Range is that in which the visit is, of how many. It has looked at something.
func (v *Visit) Range() (r wire.Range, of int) { return v.at.of, v.ranges.cfg.Count }

// Serving is Ranges.Serving.
func (v *Visit) Serving(ctx context.Context) error { return v.ranges.Serving(ctx) }

// Step is ledger.Step. The reply waits for what f has seen, also if f fails.
func (v *Visit) Step(ctx context.Context, id org.ID, f func(t, above *ledger.Locked) error) error {
	l, err := v.Look(ctx, id)
	if err != nil {
		return err
	}
	return l.Transact(ctx, id, ledger.Caller{Organization: v.By, Admission: v.Admission}, func(t, above *ledger.Locked) error {
		// Before f: what that decides must not be decided again for want of a piece.
		for _, seen := range []*ledger.Locked{t, above} {
			if seen == nil || v.strict {
				continue
			}
			var err error
			if v.strict, err = seen.Strict(); err != nil {
				return err
			}
		}
		err := f(t, above)
		v.Computed += t.ProcessorTime()
		v.Stored += uint32(t.StoreBytes())
		v.Batch = max(v.Batch, t.Batch())
		if above != nil {
			v.Batch = max(v.Batch, above.Batch())
		}
		return err
	})
}

// Turn is Step over one organization.
func (v *Visit) Turn(ctx context.Context, id org.ID, f func(t *ledger.Locked) error) error {
	return v.Step(ctx, id, func(t, _ *ledger.Locked) error { return f(t) })
}

// Wait is ledger.Wait for what the call has seen. One that has seen nothing waits at most
// for the lease, as Serving does.
func (v *Visit) Wait(ctx context.Context) error {
	if v.at == nil {
		return v.ranges.Serving(ctx)
	}
	if v.strict {
		if err := v.at.ledger.AwaitQuorum(ctx, v.Batch); err != nil {
			return err
		}
	}
	return v.at.ledger.Wait(ctx, v.Batch)
}

// Gone tells whether the error that a call ended with means that its range is another
// enclave's, or was given away meanwhile; nil if it does not.
func (v *Visit) Gone(err error) *Moved {
	if m, ok := errors.AsType[*Moved](err); ok || err == nil {
		return m
	}
	o := v.at
	if o == nil || !errors.Is(err, ledger.ErrFenced) && !errors.Is(err, ledger.ErrHandedOver) {
		return nil
	}
	s := v.ranges
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.owned[o.of] == o && !s.busy[o.of] {
		return nil
	}
	return &Moved{o.of}
}
