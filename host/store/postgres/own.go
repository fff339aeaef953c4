package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Own implements store.Writer. Every action locks the row, and so reads the newest state.
func (s *Store) Own(ctx context.Context, ask wire.Own) (owned wire.Owned, err error) {
	if err := store.CheckOwn(ask); err != nil {
		return owned, err
	}
	err = s.write(ctx, func(tx pgx.Tx) (err error) {
		owned, err = own(ctx, tx, ask)
		return err
	})
	return store.Result(owned, err, "owning")
}

func own(ctx context.Context, tx pgx.Tx, ask wire.Own) (owned wire.Owned, err error) {
	if owned, err = owner(ctx, tx, ask.Range); err != nil {
		return owned, err
	}
	holds := owned.Epoch > 0 && owned.Boot == ask.Boot && owned.Epoch == ask.Expect
	switch ask.Action {
	case wire.OwnLook:
		owned.OK = true
	case wire.OwnTake:
		if owned.Epoch != ask.Expect {
			return owned, nil
		}
		return wire.Owned{OK: true, Epoch: ask.Expect + 1, Boot: ask.Boot, Beat: owned.Beat}, take(ctx, tx, ask)
	case wire.OwnRenew:
		if owned.OK = holds && !owned.Released; owned.OK {
			owned.Beat++
			_, err = tx.Exec(ctx, "UPDATE owner SET beat = beat + 1 WHERE id = $1", rowOf(ask.Range))
		}
	case wire.OwnRelease:
		owned.OK = holds
		owned.Released = owned.Released || holds
		if holds {
			_, err = tx.Exec(ctx, "UPDATE owner SET released = true WHERE id = $1", rowOf(ask.Range))
		}
	}
	return owned, err
}

// take writes the row, which is locked unless it does not exist: then one of two takers violates its
// key and tries again.
func take(ctx context.Context, tx pgx.Tx, ask wire.Own) error {
	text := "UPDATE owner SET boot = $1, epoch = $2, released = false WHERE id = $3"
	if ask.Expect == 0 {
		text = "INSERT INTO owner (id, boot, epoch, released) VALUES ($3, $1, $2, false)"
	}
	_, err := tx.Exec(ctx, text, [16]byte(ask.Boot), int64(ask.Expect+1), rowOf(ask.Range))
	return err
}

// rowOf returns the id of a range's ownership row.
func rowOf(r wire.Range) int16 { return int16(r) + 1 }

func owner(ctx context.Context, tx pgx.Tx, r wire.Range) (owned wire.Owned, err error) {
	var boot [16]byte
	var epoch, batches, beat int64
	err = tx.QueryRow(ctx, "SELECT boot, epoch, released, beat FROM owner WHERE id = $1 FOR UPDATE", rowOf(r)).Scan(&boot, &epoch, &owned.Released, &beat)
	if errors.Is(err, pgx.ErrNoRows) {
		return owned, nil
	}
	if err != nil {
		return owned, err
	}
	// A separate statement sees the batches that were stored while the previous one waited for the lock.
	err = tx.QueryRow(ctx, "SELECT coalesce(max(number), 0) FROM batch WHERE range = $1 AND epoch = $2", int16(r), epoch).Scan(&batches)
	owned.Boot, owned.Epoch, owned.Batches, owned.Beat = boot, uint64(epoch), uint64(batches), uint64(beat)
	return owned, err
}
