-- +goose Up

-- Which organizations have a key, in the order in which they are listed. The
-- organization is its UUID: it is compared, and handed out, as that.
CREATE TABLE blind_index (
    key          BLOB    NOT NULL,
    rank         INTEGER NOT NULL,
    organization BLOB    NOT NULL,
    PRIMARY KEY (key, rank, organization)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE blind_index;
