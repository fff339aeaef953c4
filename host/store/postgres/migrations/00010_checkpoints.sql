-- +goose Up

-- The newest checkpoint that the log of a range and generation has signed over what is stored here, and the newest
-- one that its witnesses have cosigned.
CREATE TABLE checkpoint (
    range         smallint NOT NULL,
    generation    bigint   NOT NULL,
    policy        bytea    NOT NULL,
    size          bigint   NOT NULL,
    signed        bytea    NOT NULL,
    cosigned_size bigint   NOT NULL,
    cosigned      bytea    NOT NULL,
    PRIMARY KEY (range, generation)
);

-- +goose Down
DROP TABLE checkpoint;
