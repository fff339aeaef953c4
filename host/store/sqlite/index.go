package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Pages of the index: one seek in the table, which is its own index, and a scan of the rows after it.
const (
	firstRows  = `SELECT rank, organization FROM blind_index WHERE key = ? ORDER BY rank, organization LIMIT ?`
	rowsBehind = `SELECT rank, organization FROM blind_index WHERE key = ? AND (rank, organization) > (?, ?) ORDER BY rank, organization LIMIT ?`
	rowsAbove  = `SELECT rank, organization FROM blind_index WHERE key = ? AND (rank, organization) < (?, ?) ORDER BY rank DESC, organization DESC LIMIT ?`
)

// PageIndex implements store.Finder.
func (s *Store) PageIndex(ctx context.Context, ask wire.PageIndex) (wire.IndexRows, error) {
	if err := store.CheckPageIndex(ask); err != nil {
		return wire.IndexRows{}, err
	}
	text, cursor := firstRows, ask.After
	switch {
	case ask.Before != nil:
		text, cursor = rowsAbove, ask.Before
	case ask.After != nil:
		text = rowsBehind
	}
	args := []driver.Value{ask.Key[:]}
	if cursor != nil {
		args = append(args, int64(cursor.Rank), cursor.Organization[:])
	}
	args = append(args, int64(ask.Limit))
	var rows []wire.IndexRow
	err := s.read(ctx, func(c *conn) error {
		return c.query(ctx, text, func(values []driver.Value) (bool, error) {
			c := columns{values: values}
			rows = append(rows, wire.IndexRow{Rank: c.number(0), Organization: c.id(1)})
			return true, c.err
		}, args...)
	})
	if ask.Before != nil {
		slices.Reverse(rows)
	}
	return store.Result(wire.IndexRows{Rows: rows}, err, "paging the index")
}
