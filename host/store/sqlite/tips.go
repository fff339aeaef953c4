package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// LoadTips implements store.Loader.
func (s *Store) LoadTips(ctx context.Context, ask wire.LoadTips) (t wire.Tips, err error) {
	if err := store.CheckTips(ask); err != nil {
		return t, err
	}
	err = s.read(ctx, func(c *conn) error {
		t = wire.Tips{}
		var numbers []int64
		err := c.query(ctx, `SELECT uuid, id, (SELECT id FROM entry WHERE id >= o.id << 32 AND id <= (o.id << 32 | 4294967295) ORDER BY id DESC LIMIT 1)
			FROM organization o WHERE uuid >= ? AND uuid <= ? AND EXISTS (SELECT 1 FROM entry WHERE id = o.id << 32) ORDER BY uuid LIMIT ?`,
			func(values []driver.Value) (bool, error) {
				row := columns{values: values}
				t.Tips = append(t.Tips, wire.Tip{Organization: row.id(0), Count: store.Seq(int64(row.number(2))) + 1})
				numbers = append(numbers, int64(row.number(1)))
				return true, row.err
			}, ask.From[:], ask.To[:], int64(ask.Limit))
		if err != nil {
			return err
		}
		for i, number := range numbers {
			t.Tips[i].Root, err = tree.Root(t.Tips[i].Count, func(level uint, from uint64, n int) ([]wire.Hash, error) {
				return hashes(ctx, c, number, level, from, n)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return store.Result(t, err, "loading tips")
}

// LoadTable implements store.Loader.
func (s *Store) LoadTable(ctx context.Context, ask wire.LoadTable) (t wire.TipTable, err error) {
	if err := store.CheckTable(ask); err != nil {
		return t, err
	}
	err = s.read(ctx, func(c *conn) error {
		row, err := c.firstRow(ctx, "SELECT bytes FROM tip_table WHERE range = ?", int64(ask.Range))
		if err == nil && row != nil {
			t.Table = row[0].([]byte)
		}
		return err
	})
	return store.Result(t, err, "loading a tip table")
}

// LoadPages implements store.Loader.
func (s *Store) LoadPages(ctx context.Context, ask wire.LoadPages) (p wire.Pieces, err error) {
	if err := store.CheckPages(ask); err != nil {
		return p, err
	}
	err = s.read(ctx, func(c *conn) (err error) {
		p.Pieces, err = byHash(ctx, c, "SELECT bytes FROM tip_page WHERE range = ? AND hash = ?", int64(ask.Range), ask.Pages)
		return err
	})
	return store.Result(p, err, "loading pages of a tip table")
}

// PutTable implements store.Writer.
func (s *Store) PutTable(ctx context.Context, put wire.PutTable) (done wire.Done, err error) {
	if err := store.CheckNewTable(put); err != nil {
		return done, err
	}
	err = s.change(ctx, func(ctx context.Context) (bool, error) {
		owned, err := s.owner(ctx, put.Range)
		if err != nil || owned.Epoch != put.Epoch || owned.Boot != put.Boot || owned.Released {
			return false, err
		}
		if len(put.Table) > 0 {
			row, err := s.writer.firstRow(ctx, "SELECT bytes FROM tip_table WHERE range = ?", int64(put.Range))
			if err != nil {
				return false, err
			}
			var there []byte
			if row != nil {
				there = row[0].([]byte)
			}
			if fits, same := store.CompareTable(there, put); !fits {
				done.OK = same
				return false, nil
			}
		}
		done.OK = true
		return true, s.putTable(ctx, put)
	})
	return store.Result(done, err, "putting a tip table")
}

func (s *Store) putTable(ctx context.Context, put wire.PutTable) error {
	for i := range put.Drop {
		if err := s.writer.exec(ctx, "DELETE FROM tip_page WHERE range = ? AND hash = ?", int64(put.Range), put.Drop[i][:]); err != nil {
			return err
		}
	}
	written := len(put.Table)
	if len(put.Table) > 0 {
		if err := s.writer.exec(ctx, "INSERT OR REPLACE INTO tip_table (range, bytes) VALUES (?, ?)", int64(put.Range), put.Table); err != nil {
			return err
		}
	}
	for _, p := range put.Pages {
		hash := sha256.Sum256(p)
		if err := s.writer.exec(ctx, "INSERT OR IGNORE INTO tip_page (range, hash, bytes) VALUES (?, ?, ?)", int64(put.Range), hash[:], p); err != nil {
			return err
		}
		written += len(p)
	}
	s.countWritten(int64(written))
	return nil
}
