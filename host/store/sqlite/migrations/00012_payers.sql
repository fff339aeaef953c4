-- +goose Up

-- Who pays for a send: the organization of the top level. What goes to no receiver goes out by payers
-- in turn, in each by organizations in turn. What had not ended before payers were known is its
-- organization's own; NULL is left to what had.
ALTER TABLE outbox ADD COLUMN payer BLOB;
UPDATE outbox SET payer = organization WHERE state < 3;
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (kind, due) WHERE state < 3 AND receiver IS NULL;
CREATE INDEX outbox_lane ON outbox (kind, payer, organization, due) WHERE state < 3 AND receiver IS NULL;

-- +goose Down
DROP INDEX outbox_lane;
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (due) WHERE state < 3 AND receiver IS NULL;
ALTER TABLE outbox DROP COLUMN payer;
