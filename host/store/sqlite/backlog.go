package sqlite

import (
	"context"

	"cloister/host/store"
)

// Each query reads only an index, in its order.
const (
	waitingSends = `WITH RECURSIVE k (kind) AS (
			SELECT min(kind) FROM outbox WHERE state < 3 AND receiver IS NULL
			UNION ALL SELECT (SELECT min(kind) FROM outbox WHERE state < 3 AND receiver IS NULL AND kind > k.kind) FROM k WHERE k.kind IS NOT NULL)
		SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE state < 3 AND receiver IS NULL ORDER BY kind, due LIMIT ?)),
			coalesce(min((SELECT min(due) FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = k.kind)), 0) FROM k`
	waitingWebhooks = `SELECT count(*), coalesce(min(due), 0) FROM (SELECT due FROM outbox WHERE state < 3 AND receiver IS NOT NULL ORDER BY receiver, due LIMIT ?)`
	deadLetters     = `SELECT count(*), 0 FROM (SELECT 1 FROM outbox WHERE state = 5 AND receiver IS NOT NULL ORDER BY organization, seq, number LIMIT ?)`
)

// Backlog implements store.Watched.
func (s *Store) Backlog(ctx context.Context) (b store.Backlog, err error) {
	err = s.read(ctx, func(c *conn) error {
		var dead store.Waiting
		for _, q := range []struct {
			text string
			into *store.Waiting
		}{{waitingSends, &b.Sends}, {waitingWebhooks, &b.Webhooks}, {deadLetters, &dead}} {
			row, err := c.firstRow(ctx, q.text, int64(store.MaxBacklog))
			if err != nil {
				return err
			}
			*q.into = store.Waiting{Count: int(row[0].(int64)), OldestDueMs: uint64(row[1].(int64))}
		}
		b.Dead = dead.Count
		return nil
	})
	return store.Result(b, err, "looking at the outbox")
}
