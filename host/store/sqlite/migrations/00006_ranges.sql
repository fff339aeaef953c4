-- +goose Up

-- A row for each range: id is the range + 1. The range of a batch stands in its id,
-- epoch << 40 | range << 32 | number, so that those of range 0 stay where they are.
CREATE TABLE owners (
    id       INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 256),
    boot     BLOB    NOT NULL,
    epoch    INTEGER NOT NULL,
    released INTEGER NOT NULL
);
INSERT INTO owners (id, boot, epoch, released) SELECT id, boot, epoch, released FROM owner;
DROP TABLE owner;
ALTER TABLE owners RENAME TO owner;

-- +goose Down
CREATE TABLE owners (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    boot     BLOB    NOT NULL,
    epoch    INTEGER NOT NULL,
    released INTEGER NOT NULL
);
INSERT INTO owners (id, boot, epoch, released) SELECT id, boot, epoch, released FROM owner WHERE id = 1;
DROP TABLE owner;
ALTER TABLE owners RENAME TO owner;
DELETE FROM batch WHERE id >> 32 & 255 <> 0;
