package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// CountActivities implements store.Finder.
func (s *Store) CountActivities(ctx context.Context, ask wire.CountActivities) (counts wire.ActivityCounts, err error) {
	if err := store.CheckCount(ask); err != nil {
		return counts, err
	}
	err = s.read(ctx, func(tx pgx.Tx) error {
		var t store.Tally
		n, err := number(ctx, tx, ask.Organization)
		if err == nil {
			err = tally(ctx, tx, n, ask.TimesMs, &t)
		}
		counts = t.ActivityCounts
		return err
	})
	return store.Result(counts, err, "counting activities")
}

// tally counts the activities of an organization between times.
func tally(ctx context.Context, tx pgx.Tx, number int64, timesMs []uint64, t *store.Tally) error {
	all, err := count(ctx, tx, number)
	if err != nil {
		return err
	}
	bounds, err := store.Bounds(all, timesMs, func(seqs []uint64) ([]uint64, error) { return timesOf(ctx, tx, number, seqs) })
	if err != nil {
		return err
	}
	kinds, err := allKinds(ctx, tx)
	if err != nil {
		return err
	}
	ids := make([]int32, 0, len(kinds))
	for id := range kinds {
		ids = append(ids, id)
	}
	places := make([]int64, len(bounds))
	for i, b := range bounds {
		places[i] = store.Place(number, 0) + int64(b)
	}
	// Kind and id are compared as rows, so that each kind's entries are read from the index alone; see finder.page.
	var id, period int32
	var n int64
	return each(ctx, tx, `SELECT k, e.period, e.n FROM unnest($1::integer[]) AS k CROSS JOIN LATERAL (
			SELECT width_bucket(id, $2::bigint[]) AS period, count(*) AS n FROM entry
			WHERE (kind, id) >= (k, $3) AND (kind, id) < (k, $4) AND kind IS NOT NULL AND next IS NULL GROUP BY 1) AS e`,
		[]any{list(ids), list(places), places[0], places[len(places)-1]}, []any{&id, &period, &n}, func() error {
			return t.Add(kinds[id].text, kinds[id].status, int(period)-1, len(bounds)-1, uint64(n))
		})
}

// timesOf returns the times of entries.
func timesOf(ctx context.Context, tx pgx.Tx, number int64, seqs []uint64) ([]uint64, error) {
	places := make([]int64, len(seqs))
	for i, seq := range seqs {
		places[i] = store.Place(number, seq)
	}
	times, err := column[int64](ctx, tx, `SELECT time FROM unnest($1::bigint[]) WITH ORDINALITY AS p (place, i) JOIN entry ON id = place ORDER BY i`, list(places))
	if err != nil {
		return nil, err
	}
	if len(times) != len(seqs) {
		return nil, fmt.Errorf("%d of %d entries are missing", len(seqs)-len(times), len(seqs))
	}
	got := make([]uint64, len(times))
	for i, ms := range times {
		got[i] = uint64(ms)
	}
	return got, nil
}
