package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

const holdsAnything = `SELECT EXISTS (SELECT 1 FROM owner) OR EXISTS (SELECT 1 FROM object) OR EXISTS (SELECT 1 FROM batch)
	OR EXISTS (SELECT 1 FROM organization) OR EXISTS (SELECT 1 FROM wrapped)
	OR EXISTS (SELECT 1 FROM blind_index) OR EXISTS (SELECT 1 FROM outbox)
	OR EXISTS (SELECT 1 FROM tip_table) OR EXISTS (SELECT 1 FROM tip_page) OR EXISTS (SELECT 1 FROM checkpoint)`

// Import implements store.Archive. It blocks every other writer. The WAL grows to the size of the
// whole import before it is copied into the file.
func (s *Store) Import(ctx context.Context, next func() (store.Row, error)) error {
	err := s.write(ctx, func(inner context.Context) error {
		defer s.countWritten(checkpointBytes)
		return s.writer.inTransaction(inner, "BEGIN IMMEDIATE", func() (bool, error) {
			row, err := s.writer.firstRow(inner, holdsAnything)
			if err != nil {
				return false, err
			}
			if scalar(row, 1) != 0 {
				return false, fmt.Errorf("%w: the store is not empty", store.ErrRefused)
			}
			m := importer{conn: s.writer, kinds: map[kind]int64{}}
			for {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				r, err := next()
				if err == io.EOF {
					return true, m.order.Done()
				}
				if err != nil {
					return false, err
				}
				if err := m.row(inner, r); err != nil {
					return false, err
				}
			}
		})
	})
	if isConstraint(err) {
		err = errors.Join(store.ErrRefused, err)
	}
	if err != nil {
		return fmt.Errorf("importing: %w", err)
	}
	return nil
}

type importer struct {
	conn  *conn
	order store.Order
	kinds map[kind]int64
	tree  *tree.Builder // of the organization being imported
	at    int64         // objects so far
}

func (m *importer) row(ctx context.Context, r store.Row) error {
	if err := store.CheckRow(r); err != nil {
		return err
	}
	if err := m.order.Follow(r); err != nil {
		return err
	}
	put := func(text string, args ...driver.Value) error { return m.conn.exec(ctx, text, args...) }
	switch r := r.(type) {
	case *store.OwnerRow:
		return put("INSERT INTO owner (id, boot, epoch, released) VALUES (?, ?, ?, 1)", int64(r.Range)+1, r.Boot[:], int64(r.Epoch))
	case *store.ObjectRow:
		m.at++
		return put("INSERT INTO object (name, at, bytes) VALUES (?, ?, ?)", r.Name, m.at, r.Bytes)
	case *store.BatchRow:
		if r.Number > maxNumber {
			return fmt.Errorf("%w: number %d", store.ErrRefused, r.Number)
		}
		return put("INSERT INTO batch (id, header) VALUES (?, ?)", batchID(wire.Range(r.Range), r.Epoch, r.Number), r.Header)
	case *store.KeyRow:
		return put("INSERT INTO wrapped (organization, key, sealed) VALUES (?, ?, ?)", r.Organization[:], int64(r.KeyID), r.Sealed)
	case *store.OrganizationRow:
		m.tree = tree.NewBuilder()
		return put("INSERT INTO organization (id, uuid) VALUES (?, ?)", int64(r.Number), r.ID[:])
	case *store.EntryRow:
		return m.entry(ctx, r)
	case *store.SnapshotRow:
		return put("INSERT INTO snapshot (organization, count, sealed) VALUES (?, ?, ?)", int64(r.Number), int64(r.Count), r.Sealed)
	case *store.PieceRow:
		hash := sha256.Sum256(r.Sealed)
		return put("INSERT INTO piece (organization, hash, sealed) VALUES (?, ?, ?)", int64(r.Number), hash[:], r.Sealed)
	case *store.IndexRow:
		return put("INSERT INTO blind_index (key, rank, organization) VALUES (?, ?, ?)", r.Key[:], int64(r.Rank), r.Organization[:])
	case *store.SendRow:
		return m.send(ctx, r)
	case *store.TableRow:
		return put("INSERT INTO tip_table (range, bytes) VALUES (?, ?)", int64(r.Range), r.Table)
	case *store.PageRow:
		hash := sha256.Sum256(r.Page)
		return put("INSERT INTO tip_page (range, hash, bytes) VALUES (?, ?, ?)", int64(r.Range), hash[:], r.Page)
	case *store.CheckpointRow:
		return put("INSERT INTO checkpoint (range, generation, policy, size, signed, cosigned_size, cosigned) VALUES (?, ?, ?, ?, ?, ?, ?)", checkpointValues(r.Checkpoint())...)
	}
	return nil
}

func (m *importer) send(ctx context.Context, r *store.SendRow) error {
	var receiver, activity driver.Value
	if r.Receiver != (wire.ID{}) {
		receiver, activity = r.Receiver[:], r.Activity[:]
	}
	return m.conn.exec(ctx, `INSERT INTO outbox (organization, seq, number, kind, state, due, tries, claimed, said, revert, memo, receiver, activity, payer)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)`, r.Organization[:], int64(r.Seq), int64(r.Number), int64(r.SendKind), int64(r.State),
		int64(r.DueMs), int64(r.Tries), r.Text, notNull(r.Revert), notNull(r.Memo), receiver, activity, payerOf(r.Payer, &r.Organization))
}

func (m *importer) entry(ctx context.Context, e *store.EntryRow) error {
	number := int64(m.order.Number())
	var kind, activity, next, batch driver.Value
	if e.Activity != (wire.ID{}) {
		n, err := m.kind(ctx, e)
		if err != nil {
			return err
		}
		kind, activity = n, e.Activity[:]
	}
	if e.Next > 0 {
		next = store.Place(number, e.Next-1)
	}
	if in := e.Batch; in.Known() {
		if in.Number > maxNumber {
			return fmt.Errorf("%w: number %d", store.ErrRefused, in.Number)
		}
		batch = batchID(wire.Range(in.Range), in.Epoch, in.Number)
	}
	leaf := tree.Leaf(e.Sealed)
	err := m.conn.exec(ctx, "INSERT INTO entry (id, kind, next, time, activity, batch, leaf, sealed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		store.Place(number, e.Seq), kind, next, int64(e.TimeMs), activity, batch, leaf[:], e.Sealed)
	if err != nil {
		return err
	}
	made, err := m.tree.Add(leaf)
	if err != nil {
		return err
	}
	for _, n := range made {
		if err := m.conn.exec(ctx, "INSERT INTO node (id, hash) VALUES (?, ?)", store.NodePlace(number, n.Level, n.Index), n.Hash[:]); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) kind(ctx context.Context, e *store.EntryRow) (int64, error) {
	k := kind{e.Type, e.Status}
	if n, ok := m.kinds[k]; ok {
		return n, nil
	}
	row, err := m.conn.firstRow(ctx, "SELECT id FROM kind WHERE type = ? AND status = ?", k.text, int64(k.status))
	if err == nil && row == nil {
		row, err = m.conn.firstRow(ctx, "INSERT INTO kind (type, status) VALUES (?, ?) RETURNING id", k.text, int64(k.status))
	}
	if err != nil {
		return 0, err
	}
	m.kinds[k] = scalar(row, 0)
	return m.kinds[k], nil
}
