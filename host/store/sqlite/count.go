package sqlite

import (
	"context"
	"fmt"

	"cloister/host/store"
	"cloister/shared/wire"
)

// CountActivities implements store.Finder.
func (s *Store) CountActivities(ctx context.Context, ask wire.CountActivities) (counts wire.ActivityCounts, err error) {
	if err := store.CheckCount(ask); err != nil {
		return counts, err
	}
	err = s.read(ctx, func(c *conn) error {
		var t store.Tally
		number, err := organization(ctx, c, ask.Organization)
		if err == nil {
			err = c.tally(ctx, number, ask.TimesMs, &t)
		}
		counts = t.ActivityCounts
		return err
	})
	return store.Result(counts, err, "counting activities")
}

// tally counts the activities of an organization between times.
func (c *conn) tally(ctx context.Context, number int64, timesMs []uint64, t *store.Tally) error {
	all, err := count(ctx, c, number)
	if err != nil {
		return err
	}
	bounds, err := store.Bounds(all, timesMs, func(seqs []uint64) ([]uint64, error) { return c.timesOf(ctx, number, seqs) })
	if err != nil {
		return err
	}
	kinds, err := c.kinds(ctx)
	if err != nil {
		return err
	}
	periods := len(bounds) - 1
	within := func(kind, from, to uint64) (uint64, error) {
		row, err := c.firstRow(ctx, `SELECT count(*) FROM entry INDEXED BY entry_kind WHERE kind = ? AND next IS NULL AND id >= ? AND id < ?`,
			int64(kind), store.Place(number, 0)+int64(from), store.Place(number, 0)+int64(to))
		return uint64(scalar(row, 0)), err
	}
	for id, k := range kinds {
		rest, err := within(id, bounds[0], bounds[periods])
		for i := 0; i < periods && rest > 0 && err == nil; i++ {
			n := rest
			if i < periods-1 {
				n, err = within(id, bounds[i], bounds[i+1])
			}
			if err == nil {
				err = t.Add(k.text, k.status, i, periods, n)
			}
			rest -= min(n, rest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timesOf returns the times of entries.
func (c *conn) timesOf(ctx context.Context, number int64, seqs []uint64) ([]uint64, error) {
	times := make([]uint64, len(seqs))
	for i, seq := range seqs {
		row, err := c.firstRow(ctx, "SELECT time FROM entry WHERE id = ?", store.Place(number, seq))
		if err != nil {
			return nil, err
		}
		if row == nil {
			return nil, fmt.Errorf("entry %d is missing", seq)
		}
		times[i] = uint64(scalar(row, 0))
	}
	return times, nil
}
