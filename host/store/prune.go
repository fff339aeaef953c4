package store

import "context"

// A Pruner forgets what nobody will ask for again.
type Pruner interface {
	// PruneSends forgets mails, text messages and events that ended before EndedMs, and dead
	// letters that were given up before DeadMs, the oldest first, and the enclave's objects about mails
	// of old periods, and returns how many. It never forgets transactions, whose state can be asked for at any time.
	// Several may prune at once.
	PruneSends(ctx context.Context, ask PruneSends) (int, error)
}

// PruneSends says what to forget.
type PruneSends struct {
	EndedMs, DeadMs uint64
	// Mails is the name from which on objects about mails are kept; empty: all are.
	Mails string
	Limit int // 1 to MaxClaims of each of the three kinds
}

// CheckPrune bounds a PruneSends. Errors are ErrRefused.
func CheckPrune(ask PruneSends) error {
	if ask.EndedMs > MaxTime || ask.DeadMs > MaxTime {
		return refuse("prune before %d and %d", ask.EndedMs, ask.DeadMs)
	}
	return checkLimit(ask.Limit)
}
