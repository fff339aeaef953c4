package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"

	"cloister/host/store"
	"cloister/shared/wire"
)

// PutSnapshot implements store.Writer.
func (s *Store) PutSnapshot(ctx context.Context, put wire.PutSnapshot) (done wire.Done, err error) {
	if err := store.CheckSnapshot(put); err != nil {
		return done, err
	}
	err = s.change(ctx, func(ctx context.Context) (changed bool, err error) {
		done.OK, changed, err = s.putSnapshot(ctx, put)
		return changed, err
	})
	return store.Result(done, err, "putting a snapshot")
}

func (s *Store) putSnapshot(ctx context.Context, put wire.PutSnapshot) (ok, changed bool, err error) {
	owned, err := s.owner(ctx, put.Range)
	if err != nil || owned.Epoch != put.Epoch || owned.Boot != put.Boot || owned.Released {
		return false, false, err
	}
	number, err := organization(ctx, s.writer, put.Organization)
	if err != nil {
		return false, false, err
	}
	stored, err := count(ctx, s.writer, number)
	if err == nil {
		err = store.CheckStored(put.Count, stored)
	}
	if err != nil {
		return false, false, err
	}
	if len(put.Snapshot) > 0 {
		fits, same, err := s.compareSnapshot(ctx, number, put)
		if err != nil || !fits {
			return same, false, err
		}
		if err := s.replaceSnapshot(ctx, number, put); err != nil {
			return false, false, err
		}
	}
	return true, true, s.addPieces(ctx, number, put.Pieces)
}

// compareSnapshot reports whether the stored snapshot is the one that put was
// built on, or is put itself.
func (s *Store) compareSnapshot(ctx context.Context, number int64, put wire.PutSnapshot) (fits, same bool, err error) {
	row, err := s.writer.firstRow(ctx, "SELECT count, sealed FROM snapshot WHERE organization = ?", number)
	if err != nil || row == nil {
		return err == nil && put.Over == 0, false, err
	}
	there := uint64(row[0].(int64))
	return there == put.Over, there == put.Count && bytes.Equal(row[1].([]byte), put.Snapshot), nil
}

func (s *Store) replaceSnapshot(ctx context.Context, number int64, put wire.PutSnapshot) error {
	for i := range put.Drop {
		if err := s.writer.exec(ctx, "DELETE FROM piece WHERE organization = ? AND hash = ?", number, put.Drop[i][:]); err != nil {
			return err
		}
	}
	s.countWritten(int64(len(put.Snapshot)))
	return s.writer.exec(ctx, "INSERT OR REPLACE INTO snapshot (organization, count, sealed) VALUES (?, ?, ?)",
		number, int64(put.Count), put.Snapshot)
}

func (s *Store) addPieces(ctx context.Context, number int64, pieces [][]byte) error {
	written := 0
	for _, p := range pieces {
		hash := sha256.Sum256(p)
		if err := s.writer.exec(ctx, "INSERT OR IGNORE INTO piece (organization, hash, sealed) VALUES (?, ?, ?)", number, hash[:], p); err != nil {
			return err
		}
		written += len(p)
	}
	s.countWritten(int64(written))
	return nil
}

// PutObject implements store.Writer.
func (s *Store) PutObject(ctx context.Context, put wire.PutObject) (done wire.Done, err error) {
	if err := store.CheckObject(put); err != nil {
		return done, err
	}
	err = s.change(ctx, func(ctx context.Context) (bool, error) {
		done.OK = true
		if put.Once {
			row, err := s.writer.firstRow(ctx, "SELECT bytes FROM object WHERE name = ?", put.Name)
			if err != nil {
				return false, err
			}
			if row != nil {
				done.OK = bytes.Equal(row[0].([]byte), put.Bytes)
				return false, nil
			}
		}
		s.countWritten(int64(len(put.Bytes)))
		return true, s.writer.exec(ctx, `INSERT OR REPLACE INTO object (name, at, bytes)
			VALUES (?, (SELECT coalesce(max(at), 0) + 1 FROM object), ?)`, put.Name, put.Bytes)
	})
	return store.Result(done, err, "putting an object")
}
