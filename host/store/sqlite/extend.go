package sqlite

import (
	"context"
	"fmt"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// Extend implements store.Archive.
func (s *Store) Extend(ctx context.Context, batch *wire.Batch, sends []store.SendRow) (wire.Stored, error) {
	stored := wire.Stored{Number: batch.Number}
	if err := store.CheckExtension(batch, sends); err != nil {
		return stored, err
	}
	if batch.Number > maxNumber {
		return stored, fmt.Errorf("%w: number %d", store.ErrRefused, batch.Number)
	}
	leaves := make([]wire.Hash, len(batch.Entries))
	for i := range batch.Entries {
		leaves[i] = tree.Leaf(batch.Entries[i].Sealed)
	}
	err := s.write(ctx, func(ctx context.Context) error {
		a := &appender{store: s, batch: batch, leaves: leaves, next: map[int64]uint64{}}
		err := s.writer.inTransaction(ctx, "BEGIN IMMEDIATE", func() (bool, error) {
			owned, err := s.owner(ctx, batch.Range)
			if err != nil {
				return false, err
			}
			if stored.Verdict = store.Extends(owned, batch); stored.Verdict != wire.VerdictStored {
				return false, nil
			}
			clear(s.next) // another program may have written
			err = s.writer.exec(ctx, "INSERT OR REPLACE INTO owner (id, boot, epoch, released) VALUES (?, ?, ?, 1)", int64(batch.Range)+1, batch.Boot[:], int64(batch.Epoch))
			if err == nil {
				err = s.writer.exec(ctx, "INSERT INTO batch (id, header) VALUES (?, ?)", a.id(), []byte(batch.Header))
			}
			if err == nil {
				stored.Verdict, err = a.insert(ctx)
			}
			m := importer{conn: s.writer}
			for i := 0; i < len(sends) && err == nil; i++ {
				err = m.send(ctx, &sends[i])
			}
			return stored.Verdict == wire.VerdictStored, err
		})
		if isConstraint(err) {
			stored.Verdict, err = wire.VerdictConflict, nil
		}
		if err == nil && stored.Verdict == wire.VerdictStored {
			a.remember()
		}
		return err
	})
	if err != nil {
		return wire.Stored{Number: batch.Number}, fmt.Errorf("extending: %w", err)
	}
	return stored, nil
}
