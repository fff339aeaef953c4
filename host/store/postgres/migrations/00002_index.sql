-- +goose Up

-- Which organizations have a key, in the order in which they are listed. The
-- organization is its UUID: it is compared, and handed out, as that.
CREATE TABLE blind_index (
    key          bytea  NOT NULL,
    rank         bigint NOT NULL,
    organization uuid   NOT NULL,
    PRIMARY KEY (key, rank, organization)
);
ALTER TABLE blind_index ALTER COLUMN key SET STORAGE PLAIN;

-- append_batch for a batch that changes the index too: x are rows that must be
-- gone, y rows that must be there when all of the batch is done. A batch that is
-- there already has changed it then.
-- +goose StatementBegin
CREATE FUNCTION append_indexed(
    a_boot uuid, a_epoch bigint, a_number bigint, a_header bytea,
    a_gap boolean, o_uuid uuid[], o_first bigint[],
    e_org integer[], e_seq bigint[], e_time bigint[], e_activity uuid[], e_kind integer[], e_leaf bytea[], e_sealed bytea[],
    p_entry integer[], p_seq bigint[],
    n_org integer[], n_offset bigint[], n_hash bytea[],
    b_entry integer[], b_hash bytea[],
    k_uuid uuid[], k_key bigint[], k_sealed bytea[],
    x_key bytea[], x_rank bigint[], x_uuid uuid[],
    y_key bytea[], y_rank bigint[], y_uuid uuid[]
) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    verdict integer;
    known   boolean;
BEGIN
    PERFORM 1 FROM owner WHERE id = 1 FOR NO KEY UPDATE;
    PERFORM 1 FROM batch WHERE epoch = a_epoch AND number = a_number;
    known := FOUND;
    verdict := append_batch(a_boot, a_epoch, a_number, a_header, a_gap, o_uuid, o_first,
        e_org, e_seq, e_time, e_activity, e_kind, e_leaf, e_sealed, p_entry, p_seq, n_org, n_offset, n_hash,
        b_entry, b_hash, k_uuid, k_key, k_sealed);
    IF verdict <> 1 OR known THEN
        RETURN verdict;
    END IF;
    DELETE FROM blind_index AS i USING unnest(x_key, x_rank, x_uuid) AS x (k, r, o)
        WHERE i.key = x.k AND i.rank = x.r AND i.organization = x.o;
    INSERT INTO blind_index (key, rank, organization) SELECT k, r, o FROM unnest(y_key, y_rank, y_uuid) AS y (k, r, o)
        ON CONFLICT DO NOTHING;
    RETURN verdict;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION append_indexed;
DROP TABLE blind_index;
