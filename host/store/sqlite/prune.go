package sqlite

import (
	"context"
	"database/sql/driver"

	"cloister/host/store"
)

// Each statement uses an index of its own and repeats its conditions.
var pruneSends = [2]string{
	`DELETE FROM outbox WHERE (organization, seq, number) IN (SELECT organization, seq, number FROM outbox
		WHERE state >= 3 AND kind <> 1 AND (state <> 5 OR receiver IS NULL) AND due < ? ORDER BY due LIMIT ?) RETURNING 1`,
	`DELETE FROM outbox WHERE (organization, seq, number) IN (SELECT organization, seq, number FROM outbox
		WHERE state = 5 AND receiver IS NOT NULL AND due < ? ORDER BY due LIMIT ?) RETURNING 1`,
}

const pruneMails = `DELETE FROM object WHERE name IN (SELECT name FROM object WHERE name >= 'mail/' AND name < ? ORDER BY name LIMIT ?) RETURNING 1`

// PruneSends implements store.Pruner.
func (s *Store) PruneSends(ctx context.Context, ask store.PruneSends) (n int, err error) {
	if err := store.CheckPrune(ask); err != nil {
		return 0, err
	}
	err = s.change(ctx, func(ctx context.Context) (bool, error) {
		n = 0
		for i, before := range []uint64{ask.EndedMs, ask.DeadMs} {
			if err := s.writer.query(ctx, pruneSends[i], func([]driver.Value) (bool, error) { n++; return true, nil }, int64(before), int64(ask.Limit)); err != nil {
				return false, err
			}
		}
		err := s.writer.query(ctx, pruneMails, func([]driver.Value) (bool, error) { n++; return true, nil }, ask.Mails, int64(ask.Limit))
		if err != nil {
			return false, err
		}
		s.countWritten(int64(n) << 10)
		return n > 0, nil
	})
	return store.Result(n, err, "pruning the outbox")
}
