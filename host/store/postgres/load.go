package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

const (
	framing = 16      // bytes in a frame for each entry besides its own
	atOnce  = 1 << 12 // entries whose sizes are read together
)

// LoadOrganization implements store.Loader.
func (s *Store) LoadOrganization(ctx context.Context, ask wire.LoadOrganization) (o wire.Organization, err error) {
	err = s.read(ctx, func(tx pgx.Tx) error {
		o = wire.Organization{}
		n, err := number(ctx, tx, ask.Organization)
		if err != nil || n == 0 {
			return err
		}
		if o.Count, err = count(ctx, tx, n); err != nil || o.Count == 0 {
			return err
		}
		bytesLeft, err := opening(ctx, tx, n, ask.Organization, &o)
		if err != nil {
			return err
		}
		o.Entries, err = entries(ctx, tx, n, o.From, int(ask.MaxBytes), bytesLeft)
		return err
	})
	return store.Result(o, err, "loading an organization")
}

// count returns the number of an organization's entries.
func count(ctx context.Context, on querier, number int64) (uint64, error) {
	var last int64
	err := on.QueryRow(ctx, "SELECT id FROM entry WHERE id >= $1 AND id <= $2 ORDER BY id DESC LIMIT 1",
		store.Place(number, 0), store.Place(number, store.MaxSeq)).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return store.Seq(last) + 1, err
}

// opening reads keys and snapshot and returns the bytes that are left in the frame.
func opening(ctx context.Context, tx pgx.Tx, number int64, id wire.ID, o *wire.Organization) (bytesLeft int, err error) {
	bytesLeft = store.MaxAnswer
	var key int64
	var sealed []byte
	const keys = "SELECT key, sealed FROM wrapped WHERE organization = $1 ORDER BY key DESC LIMIT $2"
	err = each(ctx, tx, keys, []any{[16]byte(id), int64(store.MaxKeys)}, []any{&key, &sealed}, func() error {
		o.Keys = append(o.Keys, wire.WrappedKey{Organization: id, KeyID: uint32(key), Sealed: sealed})
		bytesLeft -= len(sealed) + 2*framing
		sealed = nil
		return nil
	})
	if err != nil {
		return 0, err
	}
	var from int64
	err = tx.QueryRow(ctx, "SELECT count, sealed FROM snapshot WHERE organization = $1", number).Scan(&from, &o.Snapshot)
	if errors.Is(err, pgx.ErrNoRows) {
		return bytesLeft, nil
	}
	o.From = uint64(from)
	return bytesLeft - len(o.Snapshot), err
}

// LoadEntries implements store.Loader.
func (s *Store) LoadEntries(ctx context.Context, ask wire.LoadEntries) (e wire.Entries, err error) {
	err = s.read(ctx, func(tx pgx.Tx) error {
		e = wire.Entries{}
		n, err := number(ctx, tx, ask.Organization)
		if err != nil || n == 0 {
			return err
		}
		e.Entries, err = entries(ctx, tx, n, ask.From, int(ask.MaxBytes), store.MaxAnswer)
		return err
	})
	return store.Result(e, err, "loading entries")
}

// entries reads sealed entries up to want bytes, at least one, but never more than the room bytes
// that are left in the frame. It queries sizes first: the rows that a server has begun to send must be read to the end.
func entries(ctx context.Context, tx pgx.Tx, number int64, from uint64, want, bytesLeft int) (list [][]byte, err error) {
	for from <= store.MaxSeq {
		sizes, err := column[int32](ctx, tx, "SELECT octet_length(sealed) FROM entry WHERE id >= $1 AND id <= $2 ORDER BY id LIMIT $3",
			store.Place(number, from), store.Place(number, store.MaxSeq), int64(atOnce))
		if err != nil {
			return nil, err
		}
		n := fitting(sizes, &want, &bytesLeft, len(list) == 0)
		if n > 0 {
			more, err := column[[]byte](ctx, tx, "SELECT sealed FROM entry WHERE id >= $1 AND id < $2 ORDER BY id",
				store.Place(number, from), store.Place(number, from)+int64(n))
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
		}
		if n < atOnce {
			return list, nil
		}
		from += atOnce
	}
	return list, nil
}

// fitting returns how many entries of these sizes fit into an answer, and subtracts them from want and room.
// The first entry of an answer is included whatever want is.
func fitting(sizes []int32, want, bytesLeft *int, first bool) (n int) {
	for _, size := range sizes {
		*want -= int(size) + framing
		*bytesLeft -= int(size) + framing
		if *bytesLeft < 0 || *want < 0 && !(first && n == 0) {
			break
		}
		n++
	}
	return n
}

// LoadPieces implements store.Loader.
func (s *Store) LoadPieces(ctx context.Context, ask wire.LoadPieces) (p wire.Pieces, err error) {
	if err := store.CheckPieces(ask); err != nil {
		return p, err
	}
	err = s.read(ctx, func(tx pgx.Tx) error {
		n, err := number(ctx, tx, ask.Organization)
		if err == nil {
			p.Pieces, err = byHash(ctx, tx, "sealed", "piece ON organization = $1", n, ask.Pieces)
		}
		return err
	})
	return store.Result(p, err, "loading pieces")
}

// byHash reads a field of the rows with a key and each hash, in the order asked. Missing ones
// are empty.
func byHash(ctx context.Context, tx pgx.Tx, field, table string, key any, asked []wire.Hash) ([][]byte, error) {
	found := make([][]byte, len(asked))
	from := " FROM unnest($2::bytea[]) WITH ORDINALITY AS w (h, i) JOIN " + table + " AND hash = h"
	args := []any{key, list(slicesOf(asked))}
	var total int64
	if err := tx.QueryRow(ctx, "SELECT coalesce(sum(octet_length("+field+")), 0)"+from, args...).Scan(&total); err != nil {
		return nil, err
	}
	if err := store.CheckAnswer(int(total)); err != nil {
		return nil, err
	}
	var i int64
	var b []byte
	err := each(ctx, tx, "SELECT i, "+field+from, args, []any{&i, &b}, func() error {
		found[i-1], b = b, nil
		return nil
	})
	return found, err
}

// LoadObject implements store.Loader.
func (s *Store) LoadObject(ctx context.Context, ask wire.LoadObject) (o wire.Object, err error) {
	if err := store.CheckName(ask.Name); err != nil {
		return o, err
	}
	text, args := "SELECT bytes FROM object WHERE name = $1", []any{ask.Name}
	if ask.Newest { // names are printable ASCII, so nothing sorts after DEL
		text = "SELECT bytes FROM object WHERE name >= $1 AND name < $2 ORDER BY at DESC LIMIT 1"
		args = append(args, ask.Name+"\x7f")
	}
	err = s.pool.QueryRow(ctx, text, args...).Scan(&o.Bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return wire.Object{}, nil
	}
	o.Found = true
	return store.Result(o, err, "loading an object")
}
