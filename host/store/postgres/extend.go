package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Extend implements store.Archive.
func (s *Store) Extend(ctx context.Context, batch *wire.Batch, sends []store.SendRow) (wire.Stored, error) {
	stored := wire.Stored{Number: batch.Number}
	if err := store.CheckExtension(batch, sends); err != nil {
		return stored, err
	}
	kinds, err := s.kindsOf(ctx, batch)
	if err != nil {
		return stored, fmt.Errorf("extending: %w", err)
	}
	err = s.write(ctx, func(tx pgx.Tx) error {
		owned, err := owner(ctx, tx, batch.Range)
		if err != nil {
			return err
		}
		if stored.Verdict = store.Extends(owned, batch); stored.Verdict != wire.VerdictStored {
			return nil
		}
		_, err = tx.Exec(ctx, "INSERT INTO owner (id, boot, epoch, released) VALUES ($1, $2, $3, false) ON CONFLICT (id) DO UPDATE SET boot = $2, epoch = $3, released = false",
			rowOf(batch.Range), [16]byte(batch.Boot), int64(batch.Epoch))
		if err != nil {
			return err
		}
		a := arrange(batch, kinds)
		if len(a.completes) > 0 && !a.gap {
			if err := a.complete(ctx, tx); err != nil {
				return err
			}
		}
		if stored.Verdict, err = a.run(ctx, tx); err != nil {
			return err
		}
		if stored.Verdict != wire.VerdictStored {
			return errLost // the ownership row stays as it was
		}
		m := newImporter(tx)
		for i := range sends {
			if err := m.send(ctx, &sends[i]); err != nil {
				return err
			}
		}
		if err := m.to["outbox"].flush(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE owner SET released = true WHERE id = $1", rowOf(batch.Range))
		return err
	})
	if err == errLost {
		err = nil
	}
	if isConstraint(err) {
		stored.Verdict, err = wire.VerdictConflict, nil
	}
	if err != nil {
		return wire.Stored{Number: batch.Number}, fmt.Errorf("extending: %w", err)
	}
	return stored, nil
}
