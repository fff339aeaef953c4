package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Pages of the index: one seek in the table, which is its own index, and the
// rows behind it.
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
		rows = nil
		return c.query(ctx, text, func(row []driver.Value) (bool, error) {
			rank, _ := row[0].(int64)
			id, _ := row[1].([]byte)
			if len(id) != len(wire.ID{}) {
				return false, fmt.Errorf("an id of %d bytes", len(id))
			}
			rows = append(rows, wire.IndexRow{Rank: uint64(rank), Organization: wire.ID(id)})
			return true, nil
		}, args...)
	})
	if err != nil {
		return wire.IndexRows{}, fmt.Errorf("paging the index: %w", err)
	}
	if ask.Before != nil {
		slices.Reverse(rows)
	}
	return wire.IndexRows{Rows: rows}, nil
}
