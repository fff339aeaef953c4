-- +goose Up

-- Who pays for a send: the organization of the top level. What goes to no receiver goes out by payers
-- in turn, in each by organizations in turn. What had not ended before payers were known is its
-- organization's own; NULL is left to what had.
ALTER TABLE outbox ADD COLUMN payer uuid;
UPDATE outbox SET payer = organization WHERE state < 3;
DROP INDEX outbox_due;
-- due >= 0 is always so. Only a statement that says it is planned with this index: where few are thought to
-- wait, it would be taken for lanes too, and all that is due read for each.
CREATE INDEX outbox_due ON outbox (kind, due) WHERE state < 3 AND receiver IS NULL AND due >= 0;
CREATE INDEX outbox_lane ON outbox (kind, payer, organization, due, seq, number) WHERE state < 3 AND receiver IS NULL;

-- append_sending with payers.
-- +goose StatementBegin
CREATE FUNCTION append_sending(
    a_range smallint, a_boot uuid, a_epoch bigint, a_number bigint, a_header bytea,
    a_gap boolean, o_uuid uuid[], o_first bigint[],
    e_org integer[], e_seq bigint[], e_time bigint[], e_activity uuid[], e_kind integer[], e_leaf bytea[], e_sealed bytea[],
    p_entry integer[], p_seq bigint[],
    n_org integer[], n_offset bigint[], n_hash bytea[],
    b_entry integer[], b_hash bytea[],
    k_uuid uuid[], k_key bigint[], k_sealed bytea[],
    x_key bytea[], x_rank bigint[], x_uuid uuid[],
    y_key bytea[], y_rank bigint[], y_uuid uuid[],
    z_uuid uuid[], z_seq bigint[], z_number smallint[], z_kind smallint[], z_due bigint[], z_receiver uuid[], z_activity uuid[], z_payer uuid[]
) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    verdict integer;
BEGIN
    verdict := append_indexed(a_range, a_boot, a_epoch, a_number, a_header, a_gap, o_uuid, o_first,
        e_org, e_seq, e_time, e_activity, e_kind, e_leaf, e_sealed, p_entry, p_seq, n_org, n_offset, n_hash,
        b_entry, b_hash, k_uuid, k_key, k_sealed, x_key, x_rank, x_uuid, y_key, y_rank, y_uuid);
    IF verdict = 1 THEN
        INSERT INTO outbox (organization, seq, number, kind, due, receiver, activity, payer)
            SELECT o, s, n, k, d, r, a, p FROM unnest(z_uuid, z_seq, z_number, z_kind, z_due, z_receiver, z_activity, z_payer) AS z (o, s, n, k, d, r, a, p)
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN verdict;
END $$;
-- +goose StatementEnd
DROP FUNCTION append_sending(smallint, uuid, bigint, bigint, bytea, boolean, uuid[], bigint[], integer[], bigint[], bigint[], uuid[], integer[], bytea[], bytea[],
    integer[], bigint[], integer[], bigint[], bytea[], integer[], bytea[], uuid[], bigint[], bytea[], bytea[], bigint[], uuid[], bytea[], bigint[],
    uuid[], uuid[], bigint[], smallint[], smallint[], bigint[], uuid[], uuid[]);

-- +goose Down
-- +goose StatementBegin
CREATE FUNCTION append_sending(
    a_range smallint, a_boot uuid, a_epoch bigint, a_number bigint, a_header bytea,
    a_gap boolean, o_uuid uuid[], o_first bigint[],
    e_org integer[], e_seq bigint[], e_time bigint[], e_activity uuid[], e_kind integer[], e_leaf bytea[], e_sealed bytea[],
    p_entry integer[], p_seq bigint[],
    n_org integer[], n_offset bigint[], n_hash bytea[],
    b_entry integer[], b_hash bytea[],
    k_uuid uuid[], k_key bigint[], k_sealed bytea[],
    x_key bytea[], x_rank bigint[], x_uuid uuid[],
    y_key bytea[], y_rank bigint[], y_uuid uuid[],
    z_uuid uuid[], z_seq bigint[], z_number smallint[], z_kind smallint[], z_due bigint[], z_receiver uuid[], z_activity uuid[]
) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    verdict integer;
BEGIN
    verdict := append_indexed(a_range, a_boot, a_epoch, a_number, a_header, a_gap, o_uuid, o_first,
        e_org, e_seq, e_time, e_activity, e_kind, e_leaf, e_sealed, p_entry, p_seq, n_org, n_offset, n_hash,
        b_entry, b_hash, k_uuid, k_key, k_sealed, x_key, x_rank, x_uuid, y_key, y_rank, y_uuid);
    IF verdict = 1 THEN
        INSERT INTO outbox (organization, seq, number, kind, due, receiver, activity)
            SELECT o, s, n, k, d, r, a FROM unnest(z_uuid, z_seq, z_number, z_kind, z_due, z_receiver, z_activity) AS z (o, s, n, k, d, r, a)
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN verdict;
END $$;
-- +goose StatementEnd
DROP FUNCTION append_sending(smallint, uuid, bigint, bigint, bytea, boolean, uuid[], bigint[], integer[], bigint[], bigint[], uuid[], integer[], bytea[], bytea[],
    integer[], bigint[], integer[], bigint[], bytea[], integer[], bytea[], uuid[], bigint[], bytea[], bytea[], bigint[], uuid[], bytea[], bigint[],
    uuid[], uuid[], bigint[], smallint[], smallint[], bigint[], uuid[], uuid[], uuid[]);
DROP INDEX outbox_lane;
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (due) WHERE state < 3 AND receiver IS NULL;
ALTER TABLE outbox DROP COLUMN payer;
