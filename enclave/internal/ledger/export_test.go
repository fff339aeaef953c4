package ledger

import (
	"context"

	"cloister/enclave/internal/org"
)

// TransactOne is a Step over one organization, on its own behalf.
func (l *Ledger) TransactOne(ctx context.Context, id org.ID, f func(*Locked) error) error {
	return l.TransactFor(ctx, id, id, f)
}

// TransactFor is a Step over one organization.
func (l *Ledger) TransactFor(ctx context.Context, id, by org.ID, f func(*Locked) error) error {
	return l.Transact(ctx, id, Caller{Organization: by}, func(t, _ *Locked) error { return f(t) })
}

// Pair is a Step that has both turns from its first run on.
func (l *Ledger) Pair(ctx context.Context, parent, child org.ID, f func(t, parent *Locked) error) error {
	return l.transactWith(ctx, parent, child, Caller{Organization: child}, f)
}
