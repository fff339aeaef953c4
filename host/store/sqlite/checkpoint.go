package sqlite

import (
	"context"
	"database/sql/driver"

	"cloister/host/store"
	"cloister/shared/wire"
)

// PutCheckpoint implements store.Checkpoints.
func (s *Store) PutCheckpoint(ctx context.Context, c store.Checkpoint) error {
	if err := store.CheckCheckpoint(&c); err != nil {
		return err
	}
	err := s.change(ctx, func(ctx context.Context) (bool, error) {
		return true, s.writer.exec(ctx, `INSERT INTO checkpoint AS c (range, generation, policy, size, signed, cosigned_size, cosigned) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (range, generation) DO UPDATE SET
				policy = iif(excluded.size > c.size, excluded.policy, c.policy),
				signed = iif(excluded.size > c.size, excluded.signed, c.signed), size = max(excluded.size, c.size),
				cosigned = iif(excluded.cosigned_size > c.cosigned_size, excluded.cosigned, c.cosigned),
				cosigned_size = max(excluded.cosigned_size, c.cosigned_size)`, checkpointValues(&c)...)
	})
	_, err = store.Result(struct{}{}, err, "putting a checkpoint")
	return err
}

func checkpointValues(c *store.Checkpoint) []driver.Value {
	return []driver.Value{int64(c.Range), int64(c.Generation), []byte(c.Policy), int64(c.Size), c.Signed, int64(c.CosignedSize), notNull(c.Cosigned)}
}

// LoadCheckpoints implements store.Checkpoints.
func (s *Store) LoadCheckpoints(ctx context.Context) (all []store.Checkpoint, err error) {
	err = s.read(ctx, func(c *conn) error {
		all = nil
		return c.query(ctx, checkpointRows, func(values []driver.Value) (bool, error) {
			row := columns{values: values}
			all = append(all, *checkpointOf(&row))
			return true, row.err
		})
	})
	return store.Result(all, err, "loading checkpoints")
}

const checkpointRows = "SELECT range, generation, policy, size, signed, cosigned_size, cosigned FROM checkpoint ORDER BY range, generation"

func checkpointOf(c *columns) *store.Checkpoint {
	return &store.Checkpoint{Range: wire.Range(c.number(0)), Generation: uint32(c.number(1)), Policy: string(c.bytes(2)), Size: c.number(3), Signed: c.bytes(4),
		CosignedSize: c.number(5), Cosigned: c.bytes(6)}
}
