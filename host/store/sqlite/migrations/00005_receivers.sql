-- +goose Up

-- What is for one receiver goes out apart from everything else: the two lie in
-- indexes of their own, so that neither is ever in the other's way. activity is
-- that of the entry; of one activity a receiver is told in the order of the seqs.
ALTER TABLE outbox ADD COLUMN receiver BLOB;
ALTER TABLE outbox ADD COLUMN activity BLOB;
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (due) WHERE state < 3 AND receiver IS NULL;
CREATE INDEX outbox_receiver ON outbox (receiver, due) WHERE state < 3 AND receiver IS NOT NULL;
CREATE INDEX outbox_order ON outbox (receiver, activity, seq) WHERE state < 3 AND receiver IS NOT NULL;
-- Dead letters.
CREATE INDEX outbox_dead ON outbox (organization, seq, number) WHERE state = 5 AND receiver IS NOT NULL;

-- +goose Down
DROP INDEX outbox_dead;
DROP INDEX outbox_order;
DROP INDEX outbox_receiver;
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (due) WHERE state < 3;
ALTER TABLE outbox DROP COLUMN activity;
ALTER TABLE outbox DROP COLUMN receiver;
