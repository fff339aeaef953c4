package store

import "context"

// A Pruner deletes ended sends, and objects of the enclave that are no longer needed.
type Pruner interface {
	// PruneSends deletes mails, text messages and events that ended before EndedMs, dead letters that were
	// given up before DeadMs, and the enclave's objects about mails of old periods, the oldest first, and
	// returns their number. It never deletes transactions, whose state can be asked for at any time.
	// Several hosts may prune at the same time.
	PruneSends(ctx context.Context, ask PruneSends) (int, error)
}

// PruneSends selects the rows and objects to delete.
type PruneSends struct {
	EndedMs, DeadMs uint64
	// Mails is the name of the first object about mails that is kept; empty: all are kept.
	Mails string
	Limit int // 1 to MaxClaims of each of the three kinds
}

// CheckPrune checks the limits of a PruneSends. Errors are ErrRefused.
func CheckPrune(ask PruneSends) error {
	if ask.EndedMs > MaxTime || ask.DeadMs > MaxTime {
		return refuse("prune before %d and %d", ask.EndedMs, ask.DeadMs)
	}
	return checkLimit(ask.Limit)
}
