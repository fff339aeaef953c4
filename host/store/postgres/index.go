package postgres

import (
	"context"
	"slices"

	"cloister/host/store"
	"cloister/shared/wire"
)

// indexed is one row of the index.
type indexed struct {
	key          wire.Hash
	rank         uint64
	organization wire.ID
}

// An indexing is a batch's changes of the index, as arrays.
type indexing struct {
	goneKey  [][]byte
	goneRank []int64
	gone     [][16]byte
	keptKey  [][]byte
	keptRank []int64
	kept     [][16]byte
}

// arrangeIndex converts a batch's index changes to arrays: of several changes to one row the last one counts. It is nil for a
// batch without changes.
func arrangeIndex(b *wire.Batch) *indexing {
	n := 0
	for i := range b.Entries {
		n += len(b.Entries[i].Index)
	}
	if n == 0 {
		return nil
	}
	x, done := new(indexing), make(map[indexed]bool, n)
	for i := range slices.Backward(b.Entries) {
		e := &b.Entries[i]
		for j := range slices.Backward(e.Index) {
			c := &e.Index[j]
			row := indexed{c.Key, c.Rank, e.Organization}
			switch {
			case done[row]:
				continue
			case c.Drop:
				x.goneKey, x.goneRank, x.gone = append(x.goneKey, c.Key[:]), append(x.goneRank, int64(c.Rank)), append(x.gone, e.Organization)
			default:
				x.keptKey, x.keptRank, x.kept = append(x.keptKey, c.Key[:]), append(x.keptRank, int64(c.Rank)), append(x.kept, e.Organization)
			}
			done[row] = true
		}
	}
	return x
}

// Pages of the index: one seek, and a scan of the rows after it. Rank and organization are compared as one
// row, so that only a plan by the index is possible.
const (
	firstRows  = `SELECT rank, organization FROM blind_index WHERE key = $1 ORDER BY rank, organization LIMIT $2`
	rowsBehind = `SELECT rank, organization FROM blind_index WHERE key = $1 AND (rank, organization) > ($3, $4) ORDER BY rank, organization LIMIT $2`
	rowsAbove  = `SELECT rank, organization FROM blind_index WHERE key = $1 AND (rank, organization) < ($3, $4) ORDER BY rank DESC, organization DESC LIMIT $2`
)

// PageIndex implements store.Finder.
func (s *Store) PageIndex(ctx context.Context, ask wire.PageIndex) (wire.IndexRows, error) {
	if err := store.CheckPageIndex(ask); err != nil {
		return wire.IndexRows{}, err
	}
	text, args := firstRows, []any{ask.Key[:], int64(ask.Limit)}
	switch {
	case ask.Before != nil:
		text, args = rowsAbove, append(args, int64(ask.Before.Rank), [16]byte(ask.Before.Organization))
	case ask.After != nil:
		text, args = rowsBehind, append(args, int64(ask.After.Rank), [16]byte(ask.After.Organization))
	}
	var rows []wire.IndexRow
	var rank int64
	var id [16]byte
	err := each(ctx, s.pool, text, args, []any{&rank, &id}, func() error {
		rows = append(rows, wire.IndexRow{Rank: uint64(rank), Organization: id})
		return nil
	})
	if ask.Before != nil {
		slices.Reverse(rows)
	}
	return store.Result(wire.IndexRows{Rows: rows}, err, "paging the index")
}
