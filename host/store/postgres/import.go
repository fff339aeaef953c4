package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// Limits of the buffered rows, in number and bytes, at which they are copied into a table.
const (
	copyRows  = 1 << 12
	copyBytes = 4 << 20
)

const holdsAnything = `SELECT EXISTS (SELECT 1 FROM owner) OR EXISTS (SELECT 1 FROM object) OR EXISTS (SELECT 1 FROM batch)
	OR EXISTS (SELECT 1 FROM organization) OR EXISTS (SELECT 1 FROM wrapped)
	OR EXISTS (SELECT 1 FROM blind_index) OR EXISTS (SELECT 1 FROM outbox)
	OR EXISTS (SELECT 1 FROM tip_table) OR EXISTS (SELECT 1 FROM tip_page) OR EXISTS (SELECT 1 FROM checkpoint)`

// Import implements store.Archive. Every other writer waits meanwhile.
func (s *Store) Import(ctx context.Context, next func() (store.Row, error)) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE owner, object, batch, organization IN EXCLUSIVE MODE"); err != nil {
			return err
		}
		var holds bool
		if err := tx.QueryRow(ctx, holdsAnything).Scan(&holds); err != nil {
			return err
		}
		if holds {
			return fmt.Errorf("%w: the store is not empty", store.ErrRefused)
		}
		m := newImporter(tx)
		for {
			r, err := next()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = m.row(ctx, r)
			}
			if err != nil {
				return err
			}
		}
		return m.end(ctx)
	})
	if isConstraint(err) {
		err = errors.Join(store.ErrRefused, err)
	}
	if err != nil {
		return fmt.Errorf("importing: %w", err)
	}
	return nil
}

// A copied table is filled by COPY, many rows at a time.
type copied struct {
	table   string
	columns []string
	rows    [][]any
	bytes   int
}

func (c *copied) flush(ctx context.Context, tx pgx.Tx) error {
	if len(c.rows) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{c.table}, c.columns, pgx.CopyFromRows(c.rows))
	clear(c.rows)
	c.rows, c.bytes = c.rows[:0], 0
	return err
}

type importer struct {
	tx    pgx.Tx
	order store.Order
	kinds map[kind]int32
	tree  *tree.Builder // of the organization being imported
	at    int64         // objects so far
	to    map[string]*copied
}

func newImporter(tx pgx.Tx) *importer {
	m := &importer{tx: tx, kinds: map[kind]int32{}, to: map[string]*copied{}}
	for table, columns := range map[string][]string{
		"owner":        {"id", "boot", "epoch", "released"},
		"object":       {"name", "at", "bytes"},
		"batch":        {"range", "epoch", "number", "header"},
		"wrapped":      {"organization", "key", "sealed"},
		"organization": {"id", "uuid"},
		"entry":        {"id", "next", "time", "activity", "kind", "range", "batch", "leaf", "sealed"},
		"node":         {"id", "hash"},
		"snapshot":     {"organization", "count", "sealed"},
		"piece":        {"organization", "hash", "sealed"},
		"blind_index":  {"key", "rank", "organization"},
		"outbox":       {"organization", "seq", "number", "kind", "state", "due", "tries", "said", "revert", "memo", "receiver", "activity", "payer"},
		"tip_table":    {"range", "bytes"},
		"tip_page":     {"range", "hash", "bytes"},
		"checkpoint":   {"range", "generation", "policy", "size", "signed", "cosigned_size", "cosigned"},
	} {
		m.to[table] = &copied{table: table, columns: columns}
	}
	return m
}

func (m *importer) put(ctx context.Context, table string, bytes int, values ...any) error {
	c := m.to[table]
	c.rows, c.bytes = append(c.rows, values), c.bytes+bytes
	if len(c.rows) < copyRows && c.bytes < copyBytes {
		return nil
	}
	return c.flush(ctx, m.tx)
}

// end copies the remaining rows, and sets sequences to go on after the imported numbers.
func (m *importer) end(ctx context.Context) error {
	if err := m.order.Done(); err != nil {
		return err
	}
	for _, c := range m.to {
		if err := c.flush(ctx, m.tx); err != nil {
			return err
		}
	}
	_, err := m.tx.Exec(ctx, `SELECT setval(pg_get_serial_sequence('organization', 'id'), greatest(1, (SELECT max(id) FROM organization)),
		EXISTS (SELECT 1 FROM organization))`)
	if err == nil {
		_, err = m.tx.Exec(ctx, `SELECT setval('object_at', greatest(1, (SELECT max(at) FROM object)), EXISTS (SELECT 1 FROM object))`)
	}
	return err
}

func (m *importer) row(ctx context.Context, r store.Row) error {
	if err := store.CheckRow(r); err != nil {
		return err
	}
	if err := m.order.Follow(r); err != nil {
		return err
	}
	switch r := r.(type) {
	case *store.OwnerRow:
		return m.put(ctx, "owner", 64, rowOf(wire.Range(r.Range)), [16]byte(r.Boot), int64(r.Epoch), true)
	case *store.ObjectRow:
		m.at++
		return m.put(ctx, "object", len(r.Bytes), r.Name, m.at, r.Bytes)
	case *store.BatchRow:
		return m.put(ctx, "batch", len(r.Header), int16(r.Range), int64(r.Epoch), int64(r.Number), r.Header)
	case *store.KeyRow:
		return m.put(ctx, "wrapped", len(r.Sealed), [16]byte(r.Organization), int64(r.KeyID), r.Sealed)
	case *store.OrganizationRow:
		m.tree = tree.NewBuilder()
		return m.put(ctx, "organization", 64, int32(r.Number), [16]byte(r.ID))
	case *store.EntryRow:
		return m.entry(ctx, r)
	case *store.SnapshotRow:
		return m.put(ctx, "snapshot", len(r.Sealed), int32(r.Number), int64(r.Count), r.Sealed)
	case *store.PieceRow:
		hash := sha256.Sum256(r.Sealed)
		return m.put(ctx, "piece", len(r.Sealed), int32(r.Number), hash[:], r.Sealed)
	case *store.IndexRow:
		return m.put(ctx, "blind_index", 64, r.Key[:], int64(r.Rank), [16]byte(r.Organization))
	case *store.SendRow:
		return m.send(ctx, r)
	case *store.TableRow:
		return m.put(ctx, "tip_table", len(r.Table), int16(r.Range), r.Table)
	case *store.PageRow:
		hash := sha256.Sum256(r.Page)
		return m.put(ctx, "tip_page", len(r.Page), int16(r.Range), hash[:], r.Page)
	case *store.CheckpointRow:
		return m.put(ctx, "checkpoint", len(r.Policy)+len(r.Signed)+len(r.Cosigned), checkpointValues(r.Checkpoint())...)
	}
	return nil
}

func (m *importer) send(ctx context.Context, r *store.SendRow) error {
	var receiver, activity any
	if r.Receiver != (wire.ID{}) {
		receiver, activity = [16]byte(r.Receiver), [16]byte(r.Activity)
	}
	return m.put(ctx, "outbox", 128+len(r.Revert)+len(r.Memo), [16]byte(r.Organization), int64(r.Seq), int16(r.Number), int16(r.SendKind), int16(r.State),
		int64(r.DueMs), int64(r.Tries), r.Text, notNull(r.Revert), notNull(r.Memo), receiver, activity, payerOf(r.Payer, r.Organization))
}

func (m *importer) entry(ctx context.Context, e *store.EntryRow) error {
	number := int64(m.order.Number())
	var kind, activity, next, in, batch any
	if e.Activity != (wire.ID{}) {
		n, err := m.kind(ctx, e)
		if err != nil {
			return err
		}
		kind, activity = n, [16]byte(e.Activity)
	}
	if e.Next > 0 {
		next = store.Place(number, e.Next-1)
	}
	if b := e.Batch; b.Known() {
		in, batch = int16(b.Range), int64(b.Epoch<<40|b.Number)
	}
	leaf := tree.Leaf(e.Sealed)
	if err := m.put(ctx, "entry", len(e.Sealed), store.Place(number, e.Seq), next, int64(e.TimeMs), activity, kind, in, batch, leaf[:], e.Sealed); err != nil {
		return err
	}
	made, err := m.tree.Add(leaf)
	if err != nil {
		return err
	}
	for _, n := range made {
		if err := m.put(ctx, "node", 64, store.NodePlace(number, n.Level, n.Index), n.Hash[:]); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) kind(ctx context.Context, e *store.EntryRow) (n int32, err error) {
	k := kind{e.Type, e.Status}
	if n, ok := m.kinds[k]; ok {
		return n, nil
	}
	err = m.tx.QueryRow(ctx, "INSERT INTO kind (type, status) VALUES ($1, $2) ON CONFLICT (type, status) DO UPDATE SET type = excluded.type RETURNING id",
		k.text, int16(k.status)).Scan(&n)
	m.kinds[k] = n
	return n, err
}
