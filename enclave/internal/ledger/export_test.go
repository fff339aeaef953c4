package ledger

import (
	"context"

	"cloister/enclave/internal/org"
)

// Turn is a Step over one organization, on its own behalf.
func (l *Ledger) Turn(ctx context.Context, id org.ID, f func(*Locked) error) error {
	return l.TurnFor(ctx, id, id, f)
}

// TurnFor is a Step over one organization.
func (l *Ledger) TurnFor(ctx context.Context, id, by org.ID, f func(*Locked) error) error {
	return l.Transact(ctx, id, Caller{Organization: by}, func(t, _ *Locked) error { return f(t) })
}

// Pair is a Step that has both turns from its first run on.
func (l *Ledger) Pair(ctx context.Context, parent, child org.ID, f func(t, parent *Locked) error) error {
	return l.transactWith(ctx, parent, child, Caller{Organization: child}, f)
}
