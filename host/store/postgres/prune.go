package postgres

import (
	"context"
	"fmt"

	"cloister/host/store"
)

// Each statement uses an index of its own and repeats its conditions, and skips rows that another
// host prunes at the same moment.
var pruneSends = [2]string{
	`DELETE FROM outbox WHERE (organization, seq, number) IN (SELECT organization, seq, number FROM outbox
		WHERE state >= 3 AND kind <> 1 AND (state <> 5 OR receiver IS NULL) AND due < $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED)`,
	`DELETE FROM outbox WHERE (organization, seq, number) IN (SELECT organization, seq, number FROM outbox
		WHERE state = 5 AND receiver IS NOT NULL AND due < $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED)`,
}

const pruneMails = `DELETE FROM object WHERE name IN (SELECT name FROM object WHERE name >= 'mail/' AND name < $1 ORDER BY name LIMIT $2 FOR UPDATE SKIP LOCKED)`

// PruneSends implements store.Pruner.
func (s *Store) PruneSends(ctx context.Context, ask store.PruneSends) (n int, err error) {
	if err := store.CheckPrune(ask); err != nil {
		return 0, err
	}
	for i, before := range []uint64{ask.EndedMs, ask.DeadMs} {
		wrote, err := s.pool.Exec(ctx, pruneSends[i], int64(before), ask.Limit)
		if err != nil {
			return n, fmt.Errorf("pruning the outbox: %w", err)
		}
		n += int(wrote.RowsAffected())
	}
	wrote, err := s.pool.Exec(ctx, pruneMails, ask.Mails, ask.Limit)
	if err != nil {
		return n, fmt.Errorf("pruning objects about mails: %w", err)
	}
	return n + int(wrote.RowsAffected()), nil
}
