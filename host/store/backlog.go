package store

import "context"

// MaxBacklog is how far a Backlog counts.
const MaxBacklog = 10_000

// A Watched is a store that tells how much waits in it. Asking costs no more
// than looking at MaxBacklog rows of an index three times over.
type Watched interface {
	// Backlog looks at the outbox.
	Backlog(ctx context.Context) (Backlog, error)
}

// A Backlog is what lies in the outbox. Every count stops at MaxBacklog.
type Backlog struct {
	Sends    Waiting // for no receiver: transactions, mail, text messages
	Webhooks Waiting
	Dead     int // dead letters
}

// Waiting is what has not ended.
type Waiting struct {
	Count int
	// OldestDueMs is when the one that is due first is due; 0 when none waits.
	// Of webhooks it is that of those counted.
	OldestDueMs uint64
}
