package sqlite

import (
	"context"

	"cloister/host/store"
)

// Each is answered from an index alone, in its order.
const (
	waitingSends    = `SELECT count(*), coalesce(min(due), 0) FROM (SELECT due FROM outbox WHERE state < 3 AND receiver IS NULL ORDER BY due LIMIT ?)`
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
			row, err := c.one(ctx, q.text, int64(store.MaxBacklog))
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
