package sqlite

import (
	"context"
	"fmt"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Own implements store.Writer. Every action takes the write lock, a Look too: a reader could see an
// older state.
func (s *Store) Own(ctx context.Context, ask wire.Own) (owned wire.Owned, err error) {
	if err := store.CheckOwn(ask); err != nil {
		return owned, err
	}
	err = s.change(ctx, func(ctx context.Context) (changed bool, err error) {
		owned, changed, err = s.own(ctx, ask)
		return changed, err
	})
	return store.Result(owned, err, "owning")
}

func (s *Store) own(ctx context.Context, ask wire.Own) (owned wire.Owned, changed bool, err error) {
	if owned, err = s.owner(ctx, ask.Range); err != nil {
		return owned, false, err
	}
	holds := owned.Epoch > 0 && owned.Boot == ask.Boot && owned.Epoch == ask.Expect
	switch ask.Action {
	case wire.OwnLook:
		owned.OK = true
	case wire.OwnTake:
		if owned.Epoch != ask.Expect {
			return owned, false, nil
		}
		owned = wire.Owned{OK: true, Epoch: ask.Expect + 1, Boot: ask.Boot, Beat: owned.Beat}
		changed = true
	case wire.OwnRenew:
		if owned.OK = holds && !owned.Released; owned.OK {
			s.beats[ask.Range]++
			owned.Beat++
		}
	case wire.OwnRelease:
		changed = holds && !owned.Released
		owned.OK = holds
		owned.Released = owned.Released || holds
	}
	if changed {
		err = s.writer.exec(ctx, "INSERT OR REPLACE INTO owner (id, boot, epoch, released) VALUES (?, ?, ?, ?)",
			int64(ask.Range)+1, owned.Boot[:], int64(owned.Epoch), truth(owned.Released))
	}
	return owned, changed, err
}

// owner reads the ownership row and the number of batches stored under its epoch.
func (s *Store) owner(ctx context.Context, r wire.Range) (owned wire.Owned, err error) {
	row, err := s.writer.firstRow(ctx, `SELECT boot, epoch, released, (SELECT id FROM batch
		WHERE id > (o.epoch << 40) + (?1 << 32) AND id < (o.epoch << 40) + ((?1 + 1) << 32)
		ORDER BY id DESC LIMIT 1) FROM owner o WHERE id = ?1 + 1`, int64(r))
	if err != nil || row == nil {
		return owned, err
	}
	boot, ok := row[0].([]byte)
	if !ok || len(boot) != len(owned.Boot) {
		return owned, fmt.Errorf("row of the owner is damaged")
	}
	copy(owned.Boot[:], boot)
	owned.Epoch = uint64(row[1].(int64))
	owned.Released = row[2].(int64) != 0
	owned.Beat = s.beats[r]
	if last, ok := row[3].(int64); ok {
		owned.Batches = uint64(last) & maxNumber
	}
	return owned, nil
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
