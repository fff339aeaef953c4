-- +goose Up

-- What a range's tip table was last, and its pages by SHA-256. A range sees its own.
CREATE TABLE tip_table (
    range INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
);

CREATE TABLE tip_page (
    range INTEGER NOT NULL,
    hash  BLOB    NOT NULL,
    bytes BLOB    NOT NULL,
    PRIMARY KEY (range, hash)
);

-- +goose Down
DROP TABLE tip_page;
DROP TABLE tip_table;
