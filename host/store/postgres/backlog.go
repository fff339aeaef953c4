package postgres

import (
	"context"
	"fmt"

	"cloister/host/store"
)

// Each part reads only an index, in its order: ended sends stay in the table and must not be
// read.
const backlog = `WITH RECURSIVE k (kind) AS (
		(SELECT kind FROM outbox WHERE state < 3 AND receiver IS NULL AND due >= 0 ORDER BY kind LIMIT 1)
		UNION ALL SELECT (SELECT o.kind FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.due >= 0 AND o.kind > k.kind ORDER BY o.kind LIMIT 1)
		FROM k WHERE k.kind IS NOT NULL)
	SELECT
	(SELECT count(*) FROM (SELECT 1 FROM outbox WHERE state < 3 AND receiver IS NULL AND due >= 0 ORDER BY kind, due LIMIT $1) x),
	(SELECT coalesce(min((SELECT o.due FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.due >= 0 AND o.kind = k.kind ORDER BY o.due LIMIT 1)), 0) FROM k),
	(SELECT count(*) FROM (SELECT 1 FROM outbox WHERE state < 3 AND receiver IS NOT NULL ORDER BY receiver, due LIMIT $1) x),
	(SELECT coalesce(min(due), 0) FROM (SELECT due FROM outbox WHERE state < 3 AND receiver IS NOT NULL ORDER BY receiver, due LIMIT $1) x),
	(SELECT count(*) FROM (SELECT 1 FROM outbox WHERE state = 5 AND receiver IS NOT NULL ORDER BY organization, seq, number LIMIT $1) x)`

// Backlog implements store.Watched.
func (s *Store) Backlog(ctx context.Context) (b store.Backlog, err error) {
	var sends, webhooks int64
	if err := s.pool.QueryRow(ctx, backlog, store.MaxBacklog).Scan(&b.Sends.Count, &sends, &b.Webhooks.Count, &webhooks, &b.Dead); err != nil {
		return store.Backlog{}, fmt.Errorf("looking at the outbox: %w", err)
	}
	b.Sends.OldestDueMs, b.Webhooks.OldestDueMs = uint64(sends), uint64(webhooks)
	return b, nil
}
