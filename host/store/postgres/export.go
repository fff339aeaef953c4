package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// exportedAtOnce is the number of organizations whose entries one statement reads.
const exportedAtOnce = 1 << 10

// Export implements store.Archive. Meanwhile it takes one connection of the pool and delays the
// server's vacuum.
func (s *Store) Export(ctx context.Context, give func(store.Row) error) error {
	// Without the cancel, all rows that the server has begun to send would have to be read.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &exporter{ctx: ctx, give: func(r store.Row) error {
		err := give(r)
		if err != nil {
			cancel()
		}
		return err
	}}
	err := s.read(ctx, func(tx pgx.Tx) error {
		x.tx = tx
		if err := alongKeys(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return err
		}
		for _, part := range []func() error{x.heads, x.organizations, x.pieces, x.rest, x.tipTables} {
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
	give func(store.Row) error
}

// A table is exported row by row in the order of its statement: values are scanned, then row makes
// the row.
type table struct {
	text   string
	values []any
	row    func() (store.Row, error)
}

func (x *exporter) tables(all ...table) error {
	for _, t := range all {
		err := each(x.ctx, x.tx, t.text, nil, t.values, func() error {
			r, err := t.row()
			if err != nil {
				return err
			}
			return x.give(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// heads exports the ownership rows, objects, headers and keys.
func (x *exporter) heads() error {
	var id [16]byte
	var a, b, r int64
	var yes bool
	var text string
	var data []byte
	return x.tables(
		table{"SELECT boot, epoch, released, id::bigint - 1 FROM owner ORDER BY id", []any{&id, &a, &yes, &r}, func() (store.Row, error) {
			return &store.OwnerRow{Range: uint32(r), Boot: id, Epoch: uint64(a), Released: yes}, nil
		}},
		table{"SELECT name, bytes FROM object ORDER BY at", []any{&text, &data}, func() (store.Row, error) {
			return &store.ObjectRow{Name: text, Bytes: moveBytes(&data)}, nil
		}},
		table{"SELECT range::bigint, epoch, number, header FROM batch ORDER BY batch.range, epoch, number", []any{&r, &a, &b, &data}, func() (store.Row, error) {
			return &store.BatchRow{Range: uint32(r), Epoch: uint64(a), Number: uint64(b), Header: moveBytes(&data)}, nil
		}},
		table{"SELECT organization, key, sealed FROM wrapped ORDER BY organization, key", []any{&id, &a, &data}, func() (store.Row, error) {
			return &store.KeyRow{Organization: id, KeyID: uint32(a), Sealed: moveBytes(&data)}, nil
		}},
	)
}

// moveBytes returns scanned bytes for keeping: it detaches them, so that the next row does not overwrite them.
func moveBytes(scanned *[]byte) []byte {
	b := *scanned
	*scanned = nil
	return b
}

// organizations exports organizations with their entries, exportedAtOnce at a time.
func (x *exporter) organizations() error {
	kinds, err := allKinds(x.ctx, x.tx)
	if err != nil {
		return err
	}
	for last := int32(0); ; {
		var some []*store.OrganizationRow
		var number int32
		var id [16]byte
		const next = "SELECT id, uuid FROM organization WHERE id > $1 ORDER BY id LIMIT $2"
		err := each(x.ctx, x.tx, next, []any{last, int64(exportedAtOnce)}, []any{&number, &id}, func() error {
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
	w := store.NewWalk(of, x.give)
	var place, time int64
	var next, batch *int64
	var in *int16
	var activity *[16]byte
	var number *int32
	var leaf, sealed []byte
	const text = "SELECT id, time, activity, kind, next, range, batch, leaf, sealed FROM entry WHERE id >= $1 AND id <= $2 ORDER BY id"
	args := []any{store.Place(int64(of[0].Number), 0), store.Place(int64(of[len(of)-1].Number), store.MaxSeq)}
	err := each(x.ctx, x.tx, text, args, []any{&place, &time, &activity, &number, &next, &in, &batch, &leaf, &sealed}, func() error {
		e := &store.EntryRow{Seq: store.Seq(place), TimeMs: uint64(time), Sealed: moveBytes(&sealed)}
		if activity != nil && number != nil {
			e.Activity, e.Type, e.Status = *activity, kinds[*number].text, kinds[*number].status
		}
		if next != nil {
			e.Next = store.Seq(*next) + 1
		}
		if in != nil && batch != nil {
			e.Batch = store.BatchPlace{Range: uint32(*in), Epoch: uint64(*batch) >> 40, Number: uint64(*batch) & store.MaxNumber}
		}
		hash, err := hashOf(leaf)
		if err != nil {
			return err
		}
		return w.Entry(place, e, hash)
	})
	if err != nil {
		return err
	}
	return w.End()
}

// allKinds returns all pairs of type and status, a few hundred, by number.
func allKinds(ctx context.Context, on querier) (map[int32]kind, error) {
	all := map[int32]kind{}
	var id int32
	var text string
	var status int16
	err := each(ctx, on, "SELECT id, type, status FROM kind", nil, []any{&id, &text, &status}, func() error {
		all[id] = kind{text, uint8(status)}
		return nil
	})
	return all, err
}

// pieces exports snapshots and their pieces.
func (x *exporter) pieces() error {
	var number int32
	var count int64
	var sealed []byte
	return x.tables(
		table{"SELECT organization, count, sealed FROM snapshot ORDER BY organization", []any{&number, &count, &sealed}, func() (store.Row, error) {
			return &store.SnapshotRow{Number: uint64(number), Count: uint64(count), Sealed: moveBytes(&sealed)}, nil
		}},
		table{"SELECT organization, sealed FROM piece ORDER BY organization, hash", []any{&number, &sealed}, func() (store.Row, error) {
			return &store.PieceRow{Number: uint64(number), Sealed: moveBytes(&sealed)}, nil
		}},
	)
}

// rest exports index rows and the outbox.
func (x *exporter) rest() error {
	var hash, revert, memo []byte
	var number, seq, due, tries int64
	var part, kind, state int16
	var said string
	var id [16]byte
	var receiver, activity, payer *[16]byte
	return x.tables(
		table{"SELECT key, rank, organization FROM blind_index ORDER BY key, rank, organization", []any{&hash, &number, &id}, func() (store.Row, error) {
			h, err := hashOf(hash)
			return &store.IndexRow{Key: h, Rank: uint64(number), Organization: id}, err
		}},
		table{"SELECT organization, seq, number, kind, state, due, tries, said, revert, memo, receiver, activity, nullif(payer, organization) FROM outbox ORDER BY organization, seq, number",
			[]any{&id, &seq, &part, &kind, &state, &due, &tries, &said, &revert, &memo, &receiver, &activity, &payer}, func() (store.Row, error) {
				row := &store.SendRow{Organization: id, Seq: uint64(seq), Number: uint16(part), SendKind: wire.SendKind(kind), State: wire.SendState(state),
					DueMs: uint64(due), Tries: uint32(tries), Text: said, Revert: moveBytes(&revert), Memo: moveBytes(&memo)}
				if receiver != nil && activity != nil {
					row.Receiver, row.Activity = *receiver, *activity
				}
				if payer != nil {
					row.Payer = *payer
				}
				return row, nil
			}},
	)
}

// tipTables exports tip tables and their pages, and checkpoints.
func (x *exporter) tipTables() error {
	var row checkpointRow
	var r int16
	var bytes []byte
	return x.tables(
		table{"SELECT range, bytes FROM tip_table ORDER BY range", []any{&r, &bytes}, func() (store.Row, error) {
			return &store.TableRow{Range: uint32(r), Table: moveBytes(&bytes)}, nil
		}},
		table{"SELECT range, bytes FROM tip_page ORDER BY range, hash", []any{&r, &bytes}, func() (store.Row, error) {
			return &store.PageRow{Range: uint32(r), Page: moveBytes(&bytes)}, nil
		}},
		table{checkpointRows, row.values(), func() (store.Row, error) {
			c := row.checkpoint()
			return store.NewCheckpointRow(&c), nil
		}},
	)
}

func hashOf(b []byte) (wire.Hash, error) {
	if len(b) != len(wire.Hash{}) {
		return wire.Hash{}, fmt.Errorf("a hash of %d bytes", len(b))
	}
	return wire.Hash(b), nil
}
