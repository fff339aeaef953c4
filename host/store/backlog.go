package store

import "context"

// MaxBacklog is the upper limit of each count in a Backlog.
const MaxBacklog = 10_000

// A Watched counts the sends that wait in the outbox, for metrics. A call reads at most MaxBacklog
// rows of an index three times.
type Watched interface {
	Backlog(ctx context.Context) (Backlog, error)
}

// A Backlog counts the outbox. Every count stops at MaxBacklog.
type Backlog struct {
	Sends    Waiting // without a receiver: transactions, mails, text messages
	Webhooks Waiting
	Dead     int // dead letters
}

// Waiting counts the unfinished sends of one lane.
type Waiting struct {
	Count       int
	OldestDueMs uint64 // earliest due time, for webhooks of the counted ones only; 0 if Count is
}
