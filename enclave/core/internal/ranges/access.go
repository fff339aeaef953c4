package ranges

import (
	"context"
	"errors"
	"time"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// An Access is how one call reads and changes organizations, from its first one to its reply. It stays in the
// ledger of the first organization that it looked up. A range that is given away and taken back meanwhile has
// another ledger, whose batches count anew.
type Access struct {
	ranges       *Ranges
	owned        *owned // the range; nil before the first organization is looked up
	Organization org.ID // the first one that was looked up: on whose behalf the call waits for locks
	Batch        uint64 // the newest seen: no reply leaves before that is stored
	// Admission is asked before the call waits for a lock; nil refuses nobody.
	Admission ledger.Admission
	// What the call has cost so far.
	Computed    time.Duration // processor time of its transactions
	Stored      uint32        // bytes that the store needs for its entries; see ledger.Locked
	awaitQuorum bool          // nothing leaves before witnesses have cosigned what was seen, since one of the organizations wants it so, or spent from a window
}

// NewAccess begins the access of a call.
func (s *Ranges) NewAccess() *Access { return &Access{ranges: s} }

// LedgerFor returns an organization's ledger once this enclave may answer for it. Errors are *Moved,
// ErrNoOrganization for an organization in another range than the call's first one, and those of
// ledger.Serving.
func (v *Access) LedgerFor(ctx context.Context, id org.ID) (*ledger.Ledger, error) {
	r := wire.RangeOf(wire.ID(id), v.ranges.cfg.Count)
	if v.owned == nil {
		o, err := v.ranges.ownedRange(r)
		if err == nil {
			err = o.ledger.Serving(ctx)
		}
		if err != nil {
			return nil, err
		}
		v.owned, v.Organization = o, id
	}
	if v.owned.number != r {
		return nil, ledger.ErrNoOrganization
	}
	return v.owned.ledger, nil
}

// Ledger is the ledger that the call is in, nil before its first organization.
func (v *Access) Ledger() *ledger.Ledger {
	if v.owned == nil {
		return nil
	}
	return v.owned.ledger
}

// Range is the range that the call is in, of how many. An organization has been looked up.
func (v *Access) Range() (r wire.Range, of int) { return v.owned.number, v.ranges.cfg.Count }

// Serving is Ranges.Serving.
func (v *Access) Serving(ctx context.Context) error { return v.ranges.Serving(ctx) }

// Transact is ledger.Ledger.Transact. The reply waits for what f has seen, also if f fails.
func (v *Access) Transact(ctx context.Context, id org.ID, f func(t, parent *ledger.Locked) error) error {
	l, err := v.LedgerFor(ctx, id)
	if err != nil {
		return err
	}
	return l.Transact(ctx, id, ledger.Caller{Organization: v.Organization, Admission: v.Admission}, func(t, parent *ledger.Locked) error {
		// Before f: what that decides must not be decided again for want of a piece.
		for _, seen := range []*ledger.Locked{t, parent} {
			if seen == nil || v.awaitQuorum {
				continue
			}
			var err error
			if v.awaitQuorum, err = seen.Strict(); err != nil {
				return err
			}
		}
		err := f(t, parent)
		v.Computed += t.ProcessorTime()
		v.Stored += uint32(t.StoreBytes())
		for _, seen := range []*ledger.Locked{t, parent} {
			if seen != nil {
				v.Batch, v.awaitQuorum = max(v.Batch, seen.Batch()), v.awaitQuorum || seen.SpendAwaitsQuorum()
			}
		}
		return err
	})
}

// WithLock is Transact over one organization.
func (v *Access) WithLock(ctx context.Context, id org.ID, f func(t *ledger.Locked) error) error {
	return v.Transact(ctx, id, func(t, _ *ledger.Locked) error { return f(t) })
}

// Wait is ledger.Ledger.Wait for what the call has seen. One that has seen nothing waits at most for the lease,
// as Serving does.
func (v *Access) Wait(ctx context.Context) error {
	if v.owned == nil {
		return v.ranges.Serving(ctx)
	}
	if v.awaitQuorum {
		if err := v.owned.ledger.AwaitQuorum(ctx, v.Batch); err != nil {
			return err
		}
	}
	return v.owned.ledger.Wait(ctx, v.Batch)
}

// MovedBy is the *Moved that an error means with which a call ended: its range is another enclave's, or was
// given away meanwhile; nil if it means something else.
func (v *Access) MovedBy(err error) *Moved {
	if m, ok := errors.AsType[*Moved](err); ok || err == nil {
		return m
	}
	o := v.owned
	if o == nil || !errors.Is(err, ledger.ErrFenced) && !errors.Is(err, ledger.ErrHandedOver) {
		return nil
	}
	s := v.ranges
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.owned[o.number] == o && !s.moving[o.number] {
		return nil
	}
	return &Moved{o.number}
}
