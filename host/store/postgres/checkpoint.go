package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// PutCheckpoint implements store.Checkpoints.
func (s *Store) PutCheckpoint(ctx context.Context, c store.Checkpoint) error {
	if err := store.CheckCheckpoint(&c); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO checkpoint AS c (range, generation, policy, size, signed, cosigned_size, cosigned) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (range, generation) DO UPDATE SET
			policy = CASE WHEN excluded.size > c.size THEN excluded.policy ELSE c.policy END,
			signed = CASE WHEN excluded.size > c.size THEN excluded.signed ELSE c.signed END, size = greatest(excluded.size, c.size),
			cosigned = CASE WHEN excluded.cosigned_size > c.cosigned_size THEN excluded.cosigned ELSE c.cosigned END,
			cosigned_size = greatest(excluded.cosigned_size, c.cosigned_size)`, checkpointValues(&c)...)
	_, err = store.Result(struct{}{}, err, "putting a checkpoint")
	return err
}

func checkpointValues(c *store.Checkpoint) []any {
	return []any{int16(c.Range), int64(c.Generation), []byte(c.Policy), int64(c.Size), c.Signed, int64(c.CosignedSize), notNull(c.Cosigned)}
}

// LoadCheckpoints implements store.Checkpoints.
func (s *Store) LoadCheckpoints(ctx context.Context) (all []store.Checkpoint, err error) {
	err = s.read(ctx, func(tx pgx.Tx) error {
		all = nil
		var row checkpointRow
		return each(ctx, tx, checkpointRows, nil, row.values(), func() error {
			all = append(all, row.checkpoint())
			return nil
		})
	})
	return store.Result(all, err, "loading checkpoints")
}

const checkpointRows = "SELECT range, generation, policy, size, signed, cosigned_size, cosigned FROM checkpoint ORDER BY range, generation"

// A checkpointRow holds the columns of a row that is scanned.
type checkpointRow struct {
	in                             int16
	generation, size, cosignedSize int64
	policy, signed, cosigned       []byte
}

func (r *checkpointRow) values() []any {
	return []any{&r.in, &r.generation, &r.policy, &r.size, &r.signed, &r.cosignedSize, &r.cosigned}
}

func (r *checkpointRow) checkpoint() store.Checkpoint {
	return store.Checkpoint{Range: wire.Range(r.in), Generation: uint32(r.generation), Policy: string(r.policy), Size: uint64(r.size), Signed: moveBytes(&r.signed),
		CosignedSize: uint64(r.cosignedSize), Cosigned: moveBytes(&r.cosigned)}
}
