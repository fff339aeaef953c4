-- +goose Up

-- What must go out. state, due, tries, what is said and memo are the senders'; a
-- claim is somebody's until claimed. States from 3 on are ends (wire.SendState).
CREATE TABLE outbox (
    organization uuid     NOT NULL,
    seq          bigint   NOT NULL,
    number       smallint NOT NULL,
    kind         smallint NOT NULL,
    state        smallint NOT NULL DEFAULT 1,
    due          bigint   NOT NULL,
    tries        bigint   NOT NULL DEFAULT 0,
    claimant     uuid,
    claimed      bigint   NOT NULL DEFAULT 0,
    said         text     NOT NULL DEFAULT '',
    revert       bytea    NOT NULL DEFAULT '',
    memo         bytea    NOT NULL DEFAULT '',
    PRIMARY KEY (organization, seq, number)
);
CREATE INDEX outbox_due ON outbox (due) WHERE state < 3;

-- append_indexed for a batch that has something to send: z are the sends. Rows of
-- the outbox are never deleted, so a batch that is there already adds none.
-- +goose StatementBegin
CREATE FUNCTION append_sending(
    a_boot uuid, a_epoch bigint, a_number bigint, a_header bytea,
    a_gap boolean, o_uuid uuid[], o_first bigint[],
    e_org integer[], e_seq bigint[], e_time bigint[], e_activity uuid[], e_kind integer[], e_leaf bytea[], e_sealed bytea[],
    p_entry integer[], p_seq bigint[],
    n_org integer[], n_offset bigint[], n_hash bytea[],
    b_entry integer[], b_hash bytea[],
    k_uuid uuid[], k_key bigint[], k_sealed bytea[],
    x_key bytea[], x_rank bigint[], x_uuid uuid[],
    y_key bytea[], y_rank bigint[], y_uuid uuid[],
    z_uuid uuid[], z_seq bigint[], z_number smallint[], z_kind smallint[], z_due bigint[]
) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    verdict integer;
BEGIN
    verdict := append_indexed(a_boot, a_epoch, a_number, a_header, a_gap, o_uuid, o_first,
        e_org, e_seq, e_time, e_activity, e_kind, e_leaf, e_sealed, p_entry, p_seq, n_org, n_offset, n_hash,
        b_entry, b_hash, k_uuid, k_key, k_sealed, x_key, x_rank, x_uuid, y_key, y_rank, y_uuid);
    IF verdict = 1 THEN
        INSERT INTO outbox (organization, seq, number, kind, due)
            SELECT o, s, n, k, d FROM unnest(z_uuid, z_seq, z_number, z_kind, z_due) AS z (o, s, n, k, d)
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN verdict;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION append_sending;
DROP TABLE outbox;
