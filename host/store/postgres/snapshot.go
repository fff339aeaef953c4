package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// PutSnapshot implements store.Writer.
func (s *Store) PutSnapshot(ctx context.Context, put wire.PutSnapshot) error {
	if err := store.CheckSnapshot(put); err != nil {
		return err
	}
	err := s.writing(ctx, func(tx pgx.Tx) error {
		n, err := number(ctx, tx, put.Organization)
		if err != nil {
			return err
		}
		stored, err := count(ctx, tx, n)
		if err == nil {
			err = store.CheckStored(put.Count, stored)
		}
		if err != nil {
			return err
		}
		return putSnapshot(ctx, tx, n, put)
	})
	if err != nil {
		return fmt.Errorf("putting a snapshot: %w", err)
	}
	return nil
}

func putSnapshot(ctx context.Context, tx pgx.Tx, number int64, put wire.PutSnapshot) error {
	done, err := tx.Exec(ctx, `INSERT INTO snapshot (organization, count, sealed) VALUES ($1, $2, $3)
		ON CONFLICT (organization) DO UPDATE SET count = excluded.count, sealed = excluded.sealed
		WHERE snapshot.count < excluded.count`, number, int64(put.Count), put.Snapshot)
	if err != nil {
		return err
	}
	if done.RowsAffected() == 0 {
		var there int64
		var sealed []byte
		err := tx.QueryRow(ctx, "SELECT count, sealed FROM snapshot WHERE organization = $1", number).Scan(&there, &sealed)
		if err == nil && (uint64(there) != put.Count || !bytes.Equal(sealed, put.Snapshot)) {
			err = store.ErrOld
		}
		return err
	}
	drop := make([][]byte, len(put.Drop))
	for i := range put.Drop {
		drop[i] = put.Drop[i][:]
	}
	if _, err := tx.Exec(ctx, "DELETE FROM piece WHERE organization = $1 AND hash = ANY ($2)", number, list(drop)); err != nil {
		return err
	}
	hashes := make([][]byte, len(put.Pieces))
	for i, p := range put.Pieces {
		h := sha256.Sum256(p)
		hashes[i] = h[:]
	}
	_, err = tx.Exec(ctx, `INSERT INTO piece (organization, hash, sealed)
		SELECT $1, h, p FROM unnest($2::bytea[], $3::bytea[]) AS n (h, p) ON CONFLICT DO NOTHING`, number, list(hashes), list(put.Pieces))
	return err
}

// PutObject implements store.Writer.
func (s *Store) PutObject(ctx context.Context, put wire.PutObject) (done wire.Done, err error) {
	if err := store.CheckObject(put); err != nil {
		return done, err
	}
	text := `INSERT INTO object (name, at, bytes) VALUES ($1, nextval('object_at'), $2)
		ON CONFLICT (name) DO UPDATE SET at = excluded.at, bytes = excluded.bytes`
	if put.Once {
		text = "INSERT INTO object (name, at, bytes) VALUES ($1, nextval('object_at'), $2) ON CONFLICT DO NOTHING"
	}
	err = s.writing(ctx, func(tx pgx.Tx) error {
		wrote, err := tx.Exec(ctx, text, put.Name, put.Bytes)
		if err != nil || wrote.RowsAffected() > 0 {
			done.OK = err == nil
			return err
		}
		return tx.QueryRow(ctx, "SELECT bytes = $2 FROM object WHERE name = $1", put.Name, put.Bytes).Scan(&done.OK)
	})
	if err != nil {
		return wire.Done{}, fmt.Errorf("putting an object: %w", err)
	}
	return done, nil
}
