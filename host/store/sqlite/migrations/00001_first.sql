-- +goose Up

-- One row: which boot owns the store. How many batches it has stored is seen
-- in table batch, so that an append writes no page of this table.
CREATE TABLE owner (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    boot     BLOB    NOT NULL,
    epoch    INTEGER NOT NULL,
    released INTEGER NOT NULL
);

-- id: epoch << 40 | number.
CREATE TABLE batch (
    id     INTEGER PRIMARY KEY,
    header BLOB NOT NULL
);

CREATE TABLE organization (
    id   INTEGER PRIMARY KEY,
    uuid BLOB NOT NULL UNIQUE
);

-- What an entry can be filtered by, as one small number.
CREATE TABLE kind (
    id     INTEGER PRIMARY KEY,
    type   TEXT    NOT NULL,
    status INTEGER NOT NULL,
    UNIQUE (type, status)
);

-- id: organization << 32 | seq. kind and activity are NULL for an entry of no
-- activity; next is the id of the same activity's next entry. The small columns
-- come first so that reading them touches no overflow page of sealed.
CREATE TABLE entry (
    id       INTEGER PRIMARY KEY,
    kind     INTEGER,
    next     INTEGER,
    time     INTEGER NOT NULL,
    activity BLOB,
    leaf     BLOB NOT NULL,
    sealed   BLOB NOT NULL
);
-- The id is the last column of every index here.
CREATE INDEX entry_activity ON entry (activity) WHERE activity IS NOT NULL;
CREATE INDEX entry_kind ON entry (kind) WHERE next IS NULL AND kind IS NOT NULL;
CREATE INDEX entry_next ON entry (next) WHERE next IS NOT NULL;

-- id: organization << 32 | (level / 8) << 28 | index.
CREATE TABLE node (
    id   INTEGER PRIMARY KEY,
    hash BLOB NOT NULL
);

CREATE TABLE blind (
    hash  BLOB    NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (hash, entry)
) WITHOUT ROWID;

CREATE TABLE wrapped (
    organization BLOB    NOT NULL,
    key          INTEGER NOT NULL,
    sealed       BLOB    NOT NULL,
    PRIMARY KEY (organization, key)
) WITHOUT ROWID;

CREATE TABLE snapshot (
    organization INTEGER PRIMARY KEY,
    count        INTEGER NOT NULL,
    sealed       BLOB    NOT NULL
);

CREATE TABLE piece (
    organization INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    sealed       BLOB    NOT NULL,
    PRIMARY KEY (organization, hash)
);

-- at counts the times that any object was stored.
CREATE TABLE object (
    name  TEXT    PRIMARY KEY,
    at    INTEGER NOT NULL UNIQUE,
    bytes BLOB    NOT NULL
);

-- +goose Down
DROP TABLE object;
DROP TABLE piece;
DROP TABLE snapshot;
DROP TABLE wrapped;
DROP TABLE blind;
DROP TABLE node;
DROP TABLE entry;
DROP TABLE kind;
DROP TABLE organization;
DROP TABLE batch;
DROP TABLE owner;
