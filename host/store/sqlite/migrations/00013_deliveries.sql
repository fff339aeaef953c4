-- +goose Up

-- The deliveries to one receiver, for whoever looks at them, and among them those that failed. due >= 0 is always so.
-- Only a statement that says it is planned with these indexes: a search for what is due would read all that has ended.
CREATE INDEX outbox_deliveries ON outbox (receiver, due, organization, seq, number) WHERE receiver IS NOT NULL AND due >= 0;
CREATE INDEX outbox_failed ON outbox (receiver, due, organization, seq, number)
    WHERE receiver IS NOT NULL AND due >= 0 AND state <> 3 AND (tries > 0 OR state > 3);

-- +goose Down
DROP INDEX outbox_failed;
DROP INDEX outbox_deliveries;
