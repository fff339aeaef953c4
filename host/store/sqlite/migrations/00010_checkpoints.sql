-- +goose Up

-- The newest checkpoint that the log of a range and generation has signed over what is stored here, and the newest
-- one that its witnesses have cosigned.
CREATE TABLE checkpoint (
    range         INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    policy        BLOB    NOT NULL,
    size          INTEGER NOT NULL,
    signed        BLOB    NOT NULL,
    cosigned_size INTEGER NOT NULL,
    cosigned      BLOB    NOT NULL,
    PRIMARY KEY (range, generation)
);

-- +goose Down
DROP TABLE checkpoint;
