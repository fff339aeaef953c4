package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"cloister/host/store"
	"cloister/shared/wire"
)

const framing = 16 // bytes in a frame for each entry besides its own

// LoadOrganization implements store.Loader.
func (s *Store) LoadOrganization(ctx context.Context, ask wire.LoadOrganization) (o wire.Organization, err error) {
	err = s.read(ctx, func(c *conn) error {
		o = wire.Organization{}
		number, err := organization(ctx, c, ask.Organization)
		if err != nil || number == 0 {
			return err
		}
		if o.Count, err = count(ctx, c, number); err != nil || o.Count == 0 {
			return err
		}
		bytesLeft, err := s.opening(ctx, c, number, ask.Organization, &o)
		if err != nil {
			return err
		}
		o.Entries, err = entries(ctx, c, number, o.From, int(ask.MaxBytes), bytesLeft)
		return err
	})
	return store.Result(o, err, "loading an organization")
}

// opening reads keys and snapshot and returns the bytes that are left in the frame.
func (s *Store) opening(ctx context.Context, c *conn, number int64, id wire.ID, o *wire.Organization) (bytesLeft int, err error) {
	bytesLeft = store.MaxAnswer
	err = c.query(ctx, "SELECT key, sealed FROM wrapped WHERE organization = ? ORDER BY key DESC LIMIT ?", func(row []driver.Value) (bool, error) {
		k := wire.WrappedKey{Organization: id, KeyID: uint32(row[0].(int64)), Sealed: row[1].([]byte)}
		o.Keys = append(o.Keys, k)
		bytesLeft -= len(k.Sealed) + 2*framing
		return true, nil
	}, id[:], int64(store.MaxKeys))
	if err != nil {
		return 0, err
	}
	row, err := c.firstRow(ctx, "SELECT count, sealed FROM snapshot WHERE organization = ?", number)
	if err != nil || row == nil {
		return bytesLeft, err
	}
	o.From, o.Snapshot = uint64(row[0].(int64)), row[1].([]byte)
	return bytesLeft - len(o.Snapshot), nil
}

// LoadEntries implements store.Loader.
func (s *Store) LoadEntries(ctx context.Context, ask wire.LoadEntries) (e wire.Entries, err error) {
	err = s.read(ctx, func(c *conn) error {
		e = wire.Entries{}
		number, err := organization(ctx, c, ask.Organization)
		if err != nil || number == 0 {
			return err
		}
		e.Entries, err = entries(ctx, c, number, ask.From, int(ask.MaxBytes), store.MaxAnswer)
		return err
	})
	return store.Result(e, err, "loading entries")
}

// entries reads sealed entries up to want bytes, at least one, but never more than the room bytes
// that are left in the frame.
func entries(ctx context.Context, c *conn, number int64, from uint64, want, bytesLeft int) (list [][]byte, err error) {
	if from > store.MaxSeq {
		return nil, nil
	}
	err = c.query(ctx, "SELECT sealed FROM entry WHERE id >= ? AND id <= ? ORDER BY id", func(row []driver.Value) (bool, error) {
		sealed := row[0].([]byte)
		want -= len(sealed) + framing
		bytesLeft -= len(sealed) + framing
		if bytesLeft < 0 || want < 0 && len(list) > 0 {
			return false, nil
		}
		list = append(list, sealed)
		return want > 0, nil
	}, store.Place(number, from), store.Place(number, store.MaxSeq))
	return list, err
}

// LoadPieces implements store.Loader.
func (s *Store) LoadPieces(ctx context.Context, ask wire.LoadPieces) (p wire.Pieces, err error) {
	if err := store.CheckPieces(ask); err != nil {
		return p, err
	}
	err = s.read(ctx, func(c *conn) error {
		number, err := organization(ctx, c, ask.Organization)
		if err == nil {
			p.Pieces, err = byHash(ctx, c, "SELECT sealed FROM piece WHERE organization = ? AND hash = ?", number, ask.Pieces)
		}
		return err
	})
	return store.Result(p, err, "loading pieces")
}

// byHash reads the bytes stored under a key and each hash, in the order asked. Missing ones
// are empty.
func byHash(ctx context.Context, c *conn, text string, key int64, asked []wire.Hash) ([][]byte, error) {
	list, total := make([][]byte, len(asked)), 0
	for i, h := range asked {
		row, err := c.firstRow(ctx, text, key, h[:])
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		list[i] = row[0].([]byte)
		total += len(list[i])
		if err := store.CheckAnswer(total); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// LoadObject implements store.Loader.
func (s *Store) LoadObject(ctx context.Context, ask wire.LoadObject) (o wire.Object, err error) {
	if err := store.CheckName(ask.Name); err != nil {
		return o, err
	}
	text, args := "SELECT bytes FROM object WHERE name = ?", []driver.Value{ask.Name}
	if ask.Newest { // names are printable ASCII, so nothing sorts after DEL
		text = "SELECT bytes FROM object WHERE name >= ? AND name < ? ORDER BY at DESC LIMIT 1"
		args = append(args, ask.Name+"\x7f")
	}
	err = s.read(ctx, func(c *conn) error {
		row, err := c.firstRow(ctx, text, args...)
		if err == nil && row != nil {
			o = wire.Object{Found: true, Bytes: row[0].([]byte)}
		}
		return err
	})
	return store.Result(o, err, "loading an object")
}

// organization returns an organization's number, 0 if there is none.
func organization(ctx context.Context, c *conn, id wire.ID) (int64, error) {
	row, err := c.firstRow(ctx, "SELECT id FROM organization WHERE uuid = ?", id[:])
	return scalar(row, 0), err
}

// hashes reads consecutive hashes of a stored level of an organization's tree.
func hashes(ctx context.Context, c *conn, number int64, level uint, from uint64, n int) ([]wire.Hash, error) {
	text, first := "SELECT leaf FROM entry WHERE id >= ? AND id < ? ORDER BY id", store.Place(number, from)
	if level > 0 {
		text, first = "SELECT hash FROM node WHERE id >= ? AND id < ? ORDER BY id", store.NodePlace(number, level, from)
	}
	list := make([]wire.Hash, 0, n)
	err := c.query(ctx, text, func(row []driver.Value) (bool, error) {
		h, _ := row[0].([]byte)
		if len(h) != len(wire.Hash{}) {
			return false, fmt.Errorf("stored hash has %d bytes", len(h))
		}
		list = append(list, wire.Hash(h))
		return true, nil
	}, first, first+int64(n))
	if err == nil && len(list) != n {
		err = fmt.Errorf("%d of %d hashes at level %d are stored", len(list), n, level)
	}
	return list, err
}
