package ledger

import (
	"context"

	"cloister/enclave/internal/org"
)

// Turn is a Step over one organization, on its own behalf.
func (l *Ledger) Turn(ctx context.Context, id org.ID, f func(*Turn) error) error {
	return l.TurnFor(ctx, id, id, f)
}

// TurnFor is a Step over one organization.
func (l *Ledger) TurnFor(ctx context.Context, id, by org.ID, f func(*Turn) error) error {
	return l.Step(ctx, id, Caller{By: by}, func(t, _ *Turn) error { return f(t) })
}

// Pair is a Step that has both turns from its first run on.
func (l *Ledger) Pair(ctx context.Context, parent, child org.ID, f func(t, above *Turn) error) error {
	return l.stepWith(ctx, parent, child, Caller{By: child}, f)
}
