package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"cloister/host/store"
	"cloister/shared/wire"
)

// PutSnapshot implements store.Writer.
func (s *Store) PutSnapshot(ctx context.Context, put wire.PutSnapshot) error {
	if err := store.CheckSnapshot(put); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context) error {
		return s.writer.within(ctx, "BEGIN IMMEDIATE", func() (bool, error) {
			return s.putSnapshot(ctx, put)
		})
	})
	if err != nil {
		return fmt.Errorf("putting a snapshot: %w", err)
	}
	return nil
}

func (s *Store) putSnapshot(ctx context.Context, put wire.PutSnapshot) (bool, error) {
	number, err := organization(ctx, s.writer, put.Organization)
	if err != nil {
		return false, err
	}
	stored, err := count(ctx, s.writer, number)
	if err == nil {
		err = store.CheckStored(put.Count, stored)
	}
	if err != nil {
		return false, err
	}
	row, err := s.writer.one(ctx, "SELECT count, sealed FROM snapshot WHERE organization = ?", number)
	if err != nil {
		return false, err
	}
	if row != nil && row[0].(int64) >= int64(put.Count) {
		if row[0].(int64) == int64(put.Count) && bytes.Equal(row[1].([]byte), put.Snapshot) {
			return false, nil
		}
		return false, store.ErrOld
	}
	return true, s.replaceSnapshot(ctx, number, put)
}

func (s *Store) replaceSnapshot(ctx context.Context, number int64, put wire.PutSnapshot) error {
	written := len(put.Snapshot)
	for i := range put.Drop {
		if err := s.writer.exec(ctx, "DELETE FROM piece WHERE organization = ? AND hash = ?", number, put.Drop[i][:]); err != nil {
			return err
		}
	}
	for _, p := range put.Pieces {
		hash := sha256.Sum256(p)
		if err := s.writer.exec(ctx, "INSERT OR IGNORE INTO piece (organization, hash, sealed) VALUES (?, ?, ?)", number, hash[:], p); err != nil {
			return err
		}
		written += len(p)
	}
	s.wrote(int64(written))
	return s.writer.exec(ctx, "INSERT OR REPLACE INTO snapshot (organization, count, sealed) VALUES (?, ?, ?)",
		number, int64(put.Count), put.Snapshot)
}

// PutObject implements store.Writer.
func (s *Store) PutObject(ctx context.Context, put wire.PutObject) (done wire.Done, err error) {
	if err := store.CheckObject(put); err != nil {
		return done, err
	}
	err = s.write(ctx, func(ctx context.Context) error {
		return s.writer.within(ctx, "BEGIN IMMEDIATE", func() (bool, error) {
			done.OK = true
			if put.Once {
				row, err := s.writer.one(ctx, "SELECT bytes FROM object WHERE name = ?", put.Name)
				if err != nil {
					return false, err
				}
				if row != nil {
					done.OK = bytes.Equal(row[0].([]byte), put.Bytes)
					return false, nil
				}
			}
			s.wrote(int64(len(put.Bytes)))
			return true, s.writer.exec(ctx, `INSERT OR REPLACE INTO object (name, at, bytes)
				VALUES (?, (SELECT coalesce(max(at), 0) + 1 FROM object), ?)`, put.Name, put.Bytes)
		})
	})
	if err != nil {
		return wire.Done{}, fmt.Errorf("putting an object: %w", err)
	}
	return done, nil
}
