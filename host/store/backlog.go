package store

import "context"

// MaxBacklog is how far a Backlog counts.
const MaxBacklog = 10_000

// A Watched is a store that tells how much waits in it, at the cost of reading MaxBacklog rows of
// an index three times.
type Watched interface {
	Backlog(ctx context.Context) (Backlog, error)
}

// A Backlog counts the outbox. Every count stops at MaxBacklog.
type Backlog struct {
	Sends    Waiting // for no receiver: transactions, mail, text messages
	Webhooks Waiting
	Dead     int // dead letters
}

// Waiting counts the sends that have not ended.
type Waiting struct {
	Count       int
	OldestDueMs uint64 // of all sends, or of those webhooks that were counted; 0 when none waits
}
