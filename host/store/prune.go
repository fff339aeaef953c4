package store

import "context"

// A Pruner forgets what nobody will ask for again.
type Pruner interface {
	// PruneSends forgets mails, text messages and events that ended before EndedMs,
	// and dead letters that were given up before DeadMs, those first that ended
	// first, and tells how many. Transactions it never forgets: where they stand can
	// be asked for at any time. Several may prune beside each other.
	PruneSends(ctx context.Context, ask PruneSends) (int, error)
}

// PruneSends says what is to be forgotten.
type PruneSends struct {
	EndedMs, DeadMs uint64
	Limit           int // 1 to MaxClaims of each of the two kinds
}

// CheckPrune bounds a PruneSends. Errors are ErrRefused.
func CheckPrune(ask PruneSends) error {
	switch {
	case ask.EndedMs > MaxTime || ask.DeadMs > MaxTime:
		return refuse("prune before %d and %d", ask.EndedMs, ask.DeadMs)
	case ask.Limit < 1 || ask.Limit > MaxClaims:
		return refuse("limit %d", ask.Limit)
	}
	return nil
}
