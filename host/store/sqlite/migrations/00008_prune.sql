-- +goose Up

-- What has ended and is no transaction is forgotten in the order in which it ended:
-- due is then that time. Dead letters stay longer.
CREATE INDEX outbox_ended ON outbox (due) WHERE state >= 3 AND kind <> 1 AND (state <> 5 OR receiver IS NULL);
CREATE INDEX outbox_dead_due ON outbox (due) WHERE state = 5 AND receiver IS NOT NULL;

-- +goose Down
DROP INDEX outbox_dead_due;
DROP INDEX outbox_ended;
