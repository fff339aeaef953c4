-- +goose Up

-- What must go out. state, due, tries, what is said and memo are the senders'; a
-- claim is somebody's until claimed. states from 3 on are ends (wire.SendState).
CREATE TABLE outbox (
    organization BLOB    NOT NULL,
    seq          INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    kind         INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    due          INTEGER NOT NULL,
    tries        INTEGER NOT NULL,
    claimant     BLOB,
    claimed      INTEGER NOT NULL,
    said         TEXT    NOT NULL,
    revert       BLOB    NOT NULL,
    memo         BLOB    NOT NULL,
    PRIMARY KEY (organization, seq, number)
) WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox (due) WHERE state < 3;

-- +goose Down
DROP TABLE outbox;
