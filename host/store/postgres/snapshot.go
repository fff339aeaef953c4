package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// errLost reports that another boot took the range while a snapshot was written.
var errLost = errors.New("this boot does not own the store")

// PutSnapshot implements store.Writer.
func (s *Store) PutSnapshot(ctx context.Context, put wire.PutSnapshot) (done wire.Done, err error) {
	if err := store.CheckSnapshot(put); err != nil {
		return done, err
	}
	err = s.write(ctx, func(tx pgx.Tx) (err error) {
		done.OK, err = putSnapshot(ctx, tx, put)
		return err
	})
	if errors.Is(err, errLost) {
		return wire.Done{}, nil
	}
	return store.Result(done, err, "putting a snapshot")
}

// putSnapshot locks the ownership row last, so that appends wait for the commit only and not for
// the transmission of megabytes. If another boot has taken the range meanwhile, everything is rolled
// back. The check at the beginning only saves useless writes.
func putSnapshot(ctx context.Context, tx pgx.Tx, put wire.PutSnapshot) (ok bool, err error) {
	if held, err := owns(ctx, tx, put.Range, put.Boot, put.Epoch, ""); err != nil || !held {
		return false, err
	}
	n, err := number(ctx, tx, put.Organization)
	if err != nil {
		return false, err
	}
	stored, err := count(ctx, tx, n)
	if err == nil {
		err = store.CheckStored(put.Count, stored)
	}
	if err != nil {
		return false, err
	}
	fits, same := true, false
	if len(put.Snapshot) > 0 {
		if fits, same, err = replaceSnapshot(ctx, tx, n, put); err != nil || !fits && !same {
			return false, err
		}
	}
	if fits {
		if err := addPieces(ctx, tx, n, put.Pieces); err != nil {
			return false, err
		}
	}
	held, err := owns(ctx, tx, put.Range, put.Boot, put.Epoch, " FOR SHARE")
	if err == nil && !held {
		err = errLost
	}
	return held, err
}

// owns reports whether a boot owns a range under an epoch. With a lock it stays so until the transaction ends.
func owns(ctx context.Context, tx pgx.Tx, r wire.Range, boot wire.ID, epoch uint64, lock string) (held bool, err error) {
	err = tx.QueryRow(ctx, "SELECT boot = $1 AND epoch = $2 AND NOT released FROM owner WHERE id = $3"+lock,
		[16]byte(boot), int64(epoch), rowOf(r)).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return held, err
}

// replaceSnapshot replaces the snapshot that put was built on, and drops pieces. If it finds
// another one, same reports whether that is put itself.
func replaceSnapshot(ctx context.Context, tx pgx.Tx, number int64, put wire.PutSnapshot) (fits, same bool, err error) {
	text, args := "UPDATE snapshot SET count = $2, sealed = $3 WHERE organization = $1 AND count = $4", []any{number, int64(put.Count), put.Snapshot, int64(put.Over)}
	if put.Over == 0 {
		text, args = "INSERT INTO snapshot (organization, count, sealed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", args[:3]
	}
	wrote, err := tx.Exec(ctx, text, args...)
	if err != nil {
		return false, false, err
	}
	if wrote.RowsAffected() == 0 {
		var there int64
		var sealed []byte
		err := tx.QueryRow(ctx, "SELECT count, sealed FROM snapshot WHERE organization = $1", number).Scan(&there, &sealed)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, false, nil
		}
		return false, err == nil && uint64(there) == put.Count && bytes.Equal(sealed, put.Snapshot), err
	}
	_, err = tx.Exec(ctx, "DELETE FROM piece WHERE organization = $1 AND hash = ANY ($2)", number, list(slicesOf(put.Drop)))
	return err == nil, false, err
}

// slicesOf converts hashes for the driver.
func slicesOf(hashes []wire.Hash) [][]byte {
	all := make([][]byte, len(hashes))
	for i := range hashes {
		all[i] = hashes[i][:]
	}
	return all
}

// hashesOf returns the hashes under which pieces are stored.
func hashesOf(pieces [][]byte) [][]byte {
	all := make([][]byte, len(pieces))
	for i, p := range pieces {
		h := sha256.Sum256(p)
		all[i] = h[:]
	}
	return all
}

func addPieces(ctx context.Context, tx pgx.Tx, number int64, pieces [][]byte) error {
	_, err := tx.Exec(ctx, `INSERT INTO piece (organization, hash, sealed)
		SELECT $1, h, p FROM unnest($2::bytea[], $3::bytea[]) AS n (h, p) ON CONFLICT DO NOTHING`, number, list(hashesOf(pieces)), list(pieces))
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
	err = s.write(ctx, func(tx pgx.Tx) error {
		wrote, err := tx.Exec(ctx, text, put.Name, put.Bytes)
		if err != nil || wrote.RowsAffected() > 0 {
			done.OK = err == nil
			return err
		}
		return tx.QueryRow(ctx, "SELECT bytes = $2 FROM object WHERE name = $1", put.Name, put.Bytes).Scan(&done.OK)
	})
	return store.Result(done, err, "putting an object")
}
