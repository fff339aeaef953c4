package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Organizations whose entries are read with one statement.
const exportedAtOnce = 1 << 10

// Export implements store.Archive. It takes one connection of the pool for as
// long as it lasts, and holds back the server's vacuum for that time.
func (s *Store) Export(ctx context.Context, each func(store.Row) error) error {
	// What a server has begun to send would have to be read to its end; with its
	// context the connection ends instead.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &exporter{ctx: ctx, each: func(r store.Row) error {
		err := each(r)
		if err != nil {
			cancel()
		}
		return err
	}}
	err := s.read(ctx, func(tx pgx.Tx) error {
		x.tx = tx
		// All of a table is read along its key, never sorted.
		if _, err := tx.Exec(ctx, "SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off; SET LOCAL idle_in_transaction_session_timeout = 0", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		for _, part := range []func() error{x.heads, x.organizations, x.pieces, x.rest} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return nil
}

type exporter struct {
	ctx  context.Context
	tx   pgx.Tx
	each func(store.Row) error
}

// rows hands on what a statement finds: values are scanned, then row is asked.
func (x *exporter) rows(text string, values []any, row func() store.Row, args ...any) error {
	rows, err := x.tx.Query(x.ctx, text, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, values, func() error { return x.each(row()) })
	return err
}

// heads are the owner, objects, headers and keys.
func (x *exporter) heads() error {
	var id [16]byte
	var a, b, r int64
	var yes bool
	var text string
	var data []byte
	// take gives the bytes away: the next row's are others.
	take := func() []byte { d := data; data = nil; return d }
	err := x.rows("SELECT boot, epoch, released, id::bigint - 1 FROM owner ORDER BY id", []any{&id, &a, &yes, &r}, func() store.Row {
		return &store.OwnerRow{Range: uint32(r), Boot: id, Epoch: uint64(a), Released: yes}
	})
	if err != nil {
		return err
	}
	err = x.rows("SELECT name, bytes FROM object ORDER BY at", []any{&text, &data}, func() store.Row {
		return &store.ObjectRow{Name: text, Bytes: take()}
	})
	if err != nil {
		return err
	}
	err = x.rows("SELECT range::bigint, epoch, number, header FROM batch ORDER BY batch.range, epoch, number", []any{&r, &a, &b, &data}, func() store.Row {
		return &store.BatchRow{Range: uint32(r), Epoch: uint64(a), Number: uint64(b), Header: take()}
	})
	if err != nil {
		return err
	}
	return x.rows("SELECT organization, key, sealed FROM wrapped ORDER BY organization, key", []any{&id, &a, &data}, func() store.Row {
		return &store.KeyRow{Organization: id, KeyID: uint32(a), Sealed: take()}
	})
}

// organizations are those with their entries, some at a time.
func (x *exporter) organizations() error {
	kinds, err := x.kinds()
	if err != nil {
		return err
	}
	for last := int32(0); ; {
		var some []*store.OrganizationRow
		var number int32
		var id [16]byte
		rows, err := x.tx.Query(x.ctx, "SELECT id, uuid FROM organization WHERE id > $1 ORDER BY id LIMIT $2", last, int64(exportedAtOnce))
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&number, &id}, func() error {
			some = append(some, &store.OrganizationRow{Number: uint64(number), ID: id})
			return nil
		})
		if err != nil || len(some) == 0 {
			return err
		}
		last = number
		if err := x.entries(some, kinds); err != nil {
			return err
		}
	}
}

func (x *exporter) entries(of []*store.OrganizationRow, kinds map[int32]kind) error {
	w := store.NewWalk(of, x.each)
	var place, time int64
	var next *int64
	var activity *[16]byte
	var number *int32
	var leaf, sealed []byte
	rows, err := x.tx.Query(x.ctx, "SELECT id, time, activity, kind, next, leaf, sealed FROM entry WHERE id >= $1 AND id <= $2 ORDER BY id",
		store.Place(int64(of[0].Number), 0), store.Place(int64(of[len(of)-1].Number), store.MaxSeq))
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&place, &time, &activity, &number, &next, &leaf, &sealed}, func() error {
		e := &store.EntryRow{Seq: store.Seq(place), TimeMs: uint64(time), Sealed: sealed}
		sealed = nil
		if activity != nil && number != nil {
			e.Activity, e.Type, e.Status = *activity, kinds[*number].text, kinds[*number].status
		}
		if next != nil {
			e.Next = store.Seq(*next) + 1
		}
		if len(leaf) != len(wire.Hash{}) {
			return fmt.Errorf("a leaf hash of %d bytes", len(leaf))
		}
		return w.Entry(place, e, wire.Hash(leaf))
	})
	if err != nil {
		return err
	}
	return w.End()
}

func (x *exporter) kinds() (map[int32]kind, error) {
	all := map[int32]kind{}
	rows, err := x.tx.Query(x.ctx, "SELECT id, type, status FROM kind")
	if err != nil {
		return nil, err
	}
	var id int32
	var text string
	var status int16
	_, err = pgx.ForEachRow(rows, []any{&id, &text, &status}, func() error {
		all[id] = kind{text, uint8(status)}
		return nil
	})
	return all, err
}

// pieces are snapshots and their pieces.
func (x *exporter) pieces() error {
	var number int32
	var count int64
	var sealed []byte
	take := func() []byte { d := sealed; sealed = nil; return d }
	err := x.rows("SELECT organization, count, sealed FROM snapshot ORDER BY organization", []any{&number, &count, &sealed}, func() store.Row {
		return &store.SnapshotRow{Number: uint64(number), Count: uint64(count), Sealed: take()}
	})
	if err != nil {
		return err
	}
	return x.rows("SELECT organization, sealed FROM piece ORDER BY organization, hash", []any{&number, &sealed}, func() store.Row {
		return &store.PieceRow{Number: uint64(number), Sealed: take()}
	})
}

// rest is what leads to entries, and the outbox.
func (x *exporter) rest() error {
	var hash, revert, memo []byte
	var number, seq int64
	var id [16]byte
	var err error
	short := func() {
		if len(hash) != len(wire.Hash{}) {
			err, hash = fmt.Errorf("a hash of %d bytes", len(hash)), make([]byte, len(wire.Hash{}))
		}
	}
	if e := x.rows("SELECT hash, entry FROM blind ORDER BY hash, entry", []any{&hash, &seq}, func() store.Row {
		short()
		return &store.BlindRow{Hash: wire.Hash(hash), Number: uint64(seq >> 32), Seq: store.Seq(seq)}
	}); e != nil || err != nil {
		return firstOf(err, e)
	}
	if e := x.rows("SELECT key, rank, organization FROM blind_index ORDER BY key, rank, organization", []any{&hash, &number, &id}, func() store.Row {
		short()
		return &store.IndexRow{Key: wire.Hash(hash), Rank: uint64(number), Organization: id}
	}); e != nil || err != nil {
		return firstOf(err, e)
	}
	var s store.SendRow
	var part, kind, state int16
	var due, tries int64
	var receiver, activity *[16]byte
	return x.rows(`SELECT organization, seq, number, kind, state, due, tries, said, revert, memo, receiver, activity FROM outbox ORDER BY organization, seq, number`,
		[]any{&id, &seq, &part, &kind, &state, &due, &tries, &s.Text, &revert, &memo, &receiver, &activity}, func() store.Row {
			row := store.SendRow{Organization: id, Seq: uint64(seq), Number: uint16(part), SendKind: wire.SendKind(kind), State: wire.SendState(state),
				DueMs: uint64(due), Tries: uint32(tries), Text: s.Text, Revert: revert, Memo: memo}
			if receiver != nil && activity != nil {
				row.Receiver, row.Activity = *receiver, *activity
			}
			revert, memo = nil, nil
			return &row
		})
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
