-- +goose Up

-- What a range's tip table was last, and its pages by SHA-256. A range sees its own. Neither compresses.
CREATE TABLE tip_table (
    range smallint PRIMARY KEY,
    bytes bytea NOT NULL
);
ALTER TABLE tip_table ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE tip_page (
    range smallint NOT NULL,
    hash  bytea    NOT NULL,
    bytes bytea    NOT NULL,
    PRIMARY KEY (range, hash)
);
ALTER TABLE tip_page ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- +goose Down
DROP TABLE tip_page;
DROP TABLE tip_table;
