package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"cloister/host/store"
	"cloister/shared/wire"
)

// atOnce is the number of organizations whose entries one statement reads.
const atOnce = 1 << 10

// Export implements store.Archive. It reads on a connection of its own, in one transaction. The
// WAL cannot be reset meanwhile, so its file grows by all that is written.
func (s *Store) Export(ctx context.Context, each func(store.Row) error) error {
	c, err := s.exporter()
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	defer s.stopped.Done()
	err = c.inTransaction(ctx, "BEGIN", func() (bool, error) {
		x := exporter{c, each}
		for _, part := range []func(context.Context) error{x.heads, x.organizations, x.rest} {
			if err := part(ctx); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err = errors.Join(err, c.close()); err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return nil
}

// exporter opens a connection that Close waits for.
func (s *Store) exporter() (*conn, error) {
	<-s.writing
	defer func() { s.writing <- struct{}{} }()
	if s.closed {
		return nil, ErrClosed
	}
	c, err := s.reader()
	if err == nil {
		s.stopped.Add(1)
	}
	return c, err
}

type exporter struct {
	conn *conn
	each func(store.Row) error
}

// A table is exported row by row in the order of its statement.
type table struct {
	text string
	row  func(*columns) store.Row
	args []driver.Value
}

func (x *exporter) tables(ctx context.Context, all ...table) error {
	for _, t := range all {
		err := x.conn.query(ctx, t.text, func(values []driver.Value) (bool, error) {
			c := columns{values: values}
			r := t.row(&c)
			if c.err != nil {
				return false, c.err
			}
			return true, x.each(r)
		}, t.args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// heads exports the ownership rows, objects, headers and keys.
func (x *exporter) heads(ctx context.Context) error {
	var ranges []uint64
	err := x.tables(ctx,
		table{text: "SELECT boot, epoch, released, id FROM owner ORDER BY id", row: func(c *columns) store.Row {
			ranges = append(ranges, c.number(3)-1)
			return &store.OwnerRow{Range: uint32(c.number(3) - 1), Boot: c.id(0), Epoch: c.number(1), Released: c.number(2) != 0}
		}},
		table{text: "SELECT name, bytes FROM object ORDER BY at", row: func(c *columns) store.Row {
			return &store.ObjectRow{Name: c.text(0), Bytes: c.bytes(1)}
		}},
	)
	if err != nil {
		return err
	}
	// The id of a batch puts epochs before ranges, so there is a pass for each range that ever had an owner.
	for _, r := range ranges {
		err := x.tables(ctx, table{"SELECT id, header FROM batch WHERE id >> 32 & 255 = ? ORDER BY id", func(c *columns) store.Row {
			id := c.number(0)
			return &store.BatchRow{Range: uint32(r), Epoch: id >> 40, Number: id & maxNumber, Header: c.bytes(1)}
		}, []driver.Value{int64(r)}})
		if err != nil {
			return err
		}
	}
	return x.tables(ctx, table{text: "SELECT organization, key, sealed FROM wrapped ORDER BY organization, key", row: func(c *columns) store.Row {
		return &store.KeyRow{Organization: c.id(0), KeyID: uint32(c.number(1)), Sealed: c.bytes(2)}
	}})
}

// organizations exports organizations with their entries, atOnce at a time.
func (x *exporter) organizations(ctx context.Context) error {
	kinds, err := x.conn.kinds(ctx)
	if err != nil {
		return err
	}
	for last := int64(0); ; {
		var some []*store.OrganizationRow
		err := x.conn.query(ctx, "SELECT id, uuid FROM organization WHERE id > ? ORDER BY id LIMIT ?", func(values []driver.Value) (bool, error) {
			c := columns{values: values}
			some = append(some, &store.OrganizationRow{Number: c.number(0), ID: c.id(1)})
			return true, c.err
		}, last, int64(atOnce))
		if err != nil || len(some) == 0 {
			return err
		}
		last = int64(some[len(some)-1].Number)
		w := store.NewWalk(some, x.each)
		err = x.conn.query(ctx, `SELECT id, time, activity, kind, next, leaf, sealed, batch FROM entry WHERE id >= ? AND id <= ? ORDER BY id`, func(values []driver.Value) (bool, error) {
			c := columns{values: values}
			place, kind := c.number(0), kinds[c.number(3)]
			e := &store.EntryRow{Seq: place & store.MaxSeq, TimeMs: c.number(1), Activity: c.id(2), Type: kind.text, Status: kind.status, Sealed: c.bytes(6)}
			if next := c.number(4); next > 0 {
				e.Next = next&store.MaxSeq + 1
			}
			if id := c.number(7); id > 0 {
				e.Batch = store.BatchPlace{Range: uint32(id >> 32 & 255), Epoch: id >> 40, Number: id & maxNumber}
			}
			if leaf := c.hash(5); c.err == nil {
				c.err = w.Entry(int64(place), e, leaf)
			}
			return true, c.err
		}, store.Place(int64(some[0].Number), 0), store.Place(last, store.MaxSeq))
		if err == nil {
			err = w.End()
		}
		if err != nil {
			return err
		}
	}
}

// kinds returns all pairs of type and status, a few hundred, by number.
func (c *conn) kinds(ctx context.Context) (map[uint64]kind, error) {
	all := map[uint64]kind{}
	err := c.query(ctx, "SELECT id, type, status FROM kind", func(values []driver.Value) (bool, error) {
		c := columns{values: values}
		all[c.number(0)] = kind{c.text(1), uint8(c.number(2))}
		return true, c.err
	})
	return all, err
}

// rest exports all rows after the organizations.
func (x *exporter) rest(ctx context.Context) error {
	return x.tables(ctx,
		table{text: "SELECT organization, count, sealed FROM snapshot ORDER BY organization", row: func(c *columns) store.Row {
			return &store.SnapshotRow{Number: c.number(0), Count: c.number(1), Sealed: c.bytes(2)}
		}},
		table{text: "SELECT organization, sealed FROM piece ORDER BY organization, hash", row: func(c *columns) store.Row {
			return &store.PieceRow{Number: c.number(0), Sealed: c.bytes(1)}
		}},
		table{text: "SELECT key, rank, organization FROM blind_index ORDER BY key, rank, organization", row: func(c *columns) store.Row {
			return &store.IndexRow{Key: c.hash(0), Rank: c.number(1), Organization: c.id(2)}
		}},
		table{text: "SELECT " + sendColumns + ", nullif(payer, organization) FROM outbox ORDER BY organization, seq, number", row: func(c *columns) store.Row {
			return &store.SendRow{Organization: c.id(0), Seq: c.number(1), Number: uint16(c.number(2)), SendKind: wire.SendKind(c.number(3)),
				State: wire.SendState(c.number(4)), DueMs: c.number(5), Tries: uint32(c.number(6)), Text: c.text(7), Revert: c.bytes(8), Memo: c.bytes(9),
				Receiver: c.id(10), Activity: c.id(11), Payer: c.id(12)}
		}},
		table{text: "SELECT range, bytes FROM tip_table ORDER BY range", row: func(c *columns) store.Row {
			return &store.TableRow{Range: uint32(c.number(0)), Table: c.bytes(1)}
		}},
		table{text: "SELECT range, bytes FROM tip_page ORDER BY range, hash", row: func(c *columns) store.Row {
			return &store.PageRow{Range: uint32(c.number(0)), Page: c.bytes(1)}
		}},
		table{text: checkpointRows, row: func(c *columns) store.Row { return store.NewCheckpointRow(checkpointOf(c)) }},
	)
}

// columns reads the values of a row and records the first failure. NULL reads as the zero value.
type columns struct {
	values []driver.Value
	err    error
}

func (c *columns) number(i int) uint64 {
	n, ok := c.values[i].(int64)
	if (!ok || n < 0) && c.values[i] != nil {
		c.fail(i)
	}
	return uint64(n)
}

func (c *columns) text(i int) string {
	s, ok := c.values[i].(string)
	if !ok {
		c.fail(i)
	}
	return s
}

func (c *columns) bytes(i int) []byte {
	b, ok := c.values[i].([]byte)
	if !ok && c.values[i] != nil {
		c.fail(i)
	}
	return b
}

func (c *columns) id(i int) (id wire.ID) {
	if b := c.bytes(i); len(b) == len(id) {
		id = wire.ID(b)
	} else if b != nil {
		c.fail(i)
	}
	return id
}

func (c *columns) hash(i int) (h wire.Hash) {
	b := c.bytes(i)
	if len(b) != len(h) {
		c.fail(i)
	}
	copy(h[:], b)
	return h
}

func (c *columns) fail(i int) {
	if c.err == nil {
		c.err = fmt.Errorf("column %d of a row is damaged", i)
	}
}
