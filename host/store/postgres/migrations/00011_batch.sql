-- +goose Up

-- Which batch an entry came in: epoch << 40 | number, of a range. NULL for entries of before.
ALTER TABLE entry ADD COLUMN batch bigint;
ALTER TABLE entry ADD COLUMN range smallint;

-- As before, and entries with their batch.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION append_batch(
    a_range smallint, a_boot uuid, a_epoch bigint, a_number bigint, a_header bytea,
    a_gap boolean, o_uuid uuid[], o_first bigint[],
    e_org integer[], e_seq bigint[], e_time bigint[], e_activity uuid[], e_kind integer[], e_leaf bytea[], e_sealed bytea[],
    p_entry integer[], p_seq bigint[],
    n_org integer[], n_offset bigint[], n_hash bytea[],
    b_entry integer[], b_hash bytea[],
    k_uuid uuid[], k_key bigint[], k_sealed bytea[]
) RETURNS integer LANGUAGE plpgsql
-- Planning anew took a third of an append; plans made while the tables were empty
-- must not read them from end to end later.
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    held owner%ROWTYPE;
    last bigint;
    base bigint[]; -- id of seq 0 of each organization
    wrong boolean; -- an organization does not stand where the batch goes on
BEGIN
    SELECT * INTO held FROM owner WHERE id = a_range + 1 FOR NO KEY UPDATE;
    IF NOT FOUND OR held.boot <> a_boot OR held.epoch <> a_epoch OR held.released THEN
        RETURN 3;
    END IF;

    SELECT number INTO last FROM batch WHERE range = a_range AND epoch = a_epoch ORDER BY number DESC LIMIT 1;
    last := coalesce(last, 0);
    IF a_number <= last THEN
        PERFORM 1 FROM batch WHERE range = a_range AND epoch = a_epoch AND number = a_number AND header = a_header;
        RETURN CASE WHEN FOUND THEN 1 ELSE 2 END;
    ELSIF a_number > last + 1 OR a_gap THEN
        RETURN 2;
    END IF;

    IF 0 = ANY (o_first) THEN
        INSERT INTO organization (uuid)
            SELECT u FROM unnest(o_uuid, o_first) AS o (u, f)
            WHERE f = 0 AND NOT EXISTS (SELECT 1 FROM organization WHERE uuid = u)
            ON CONFLICT DO NOTHING;
    END IF;
    -- OFFSET 0 keeps b from being looked up once for each of its uses.
    SELECT array_agg(b ORDER BY i), bool_or(b IS NULL OR b + f <> coalesce(
            (SELECT id + 1 FROM entry WHERE id >= b AND id < b + (1::bigint << 32) ORDER BY id DESC LIMIT 1), b))
        INTO base, wrong
        FROM (SELECT i, f, (SELECT id::bigint << 32 FROM organization WHERE uuid = u) AS b
            FROM unnest(o_uuid, o_first) WITH ORDINALITY AS o (u, f, i) OFFSET 0) AS o;
    IF wrong THEN
        RETURN 2;
    END IF;

    INSERT INTO batch (range, epoch, number, header) VALUES (a_range, a_epoch, a_number, a_header);
    INSERT INTO entry (id, time, activity, kind, range, batch, leaf, sealed)
        SELECT base[o] + s, t, nullif(a, '00000000-0000-0000-0000-000000000000'), nullif(k, 0), a_range, a_epoch << 40 | a_number, l, x
        FROM unnest(e_org, e_seq, e_time, e_activity, e_kind, e_leaf, e_sealed) AS e (o, s, t, a, k, l, x);
    IF cardinality(p_entry) > 0 THEN
        UPDATE entry SET next = base[e_org[p.e]] + e_seq[p.e]
            FROM unnest(p_entry, p_seq) AS p (e, s)
            WHERE entry.id = base[e_org[p.e]] + p.s AND entry.activity = e_activity[p.e] AND entry.next IS NULL;
    END IF;
    IF cardinality(n_org) > 0 THEN
        INSERT INTO node (id, hash) SELECT base[o] + i, h FROM unnest(n_org, n_offset, n_hash) AS n (o, i, h);
    END IF;
    IF cardinality(b_entry) > 0 THEN
        INSERT INTO blind (hash, entry) SELECT h, base[e_org[e]] + e_seq[e] FROM unnest(b_entry, b_hash) AS b (e, h)
            ON CONFLICT DO NOTHING;
    END IF;
    -- One by one: a batch may hold the same key twice, and the last one counts.
    FOR i IN 1 .. cardinality(k_uuid) LOOP
        INSERT INTO wrapped (organization, key, sealed) VALUES (k_uuid[i], k_key[i], k_sealed[i])
            ON CONFLICT (organization, key) DO UPDATE SET sealed = excluded.sealed;
    END LOOP;
    RETURN 1;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION append_batch(
    a_range smallint, a_boot uuid, a_epoch bigint, a_number bigint, a_header bytea,
    a_gap boolean, o_uuid uuid[], o_first bigint[],
    e_org integer[], e_seq bigint[], e_time bigint[], e_activity uuid[], e_kind integer[], e_leaf bytea[], e_sealed bytea[],
    p_entry integer[], p_seq bigint[],
    n_org integer[], n_offset bigint[], n_hash bytea[],
    b_entry integer[], b_hash bytea[],
    k_uuid uuid[], k_key bigint[], k_sealed bytea[]
) RETURNS integer LANGUAGE plpgsql
-- Planning anew took a third of an append; plans made while the tables were empty
-- must not read them from end to end later.
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    held owner%ROWTYPE;
    last bigint;
    base bigint[]; -- id of seq 0 of each organization
    wrong boolean; -- an organization does not stand where the batch goes on
BEGIN
    SELECT * INTO held FROM owner WHERE id = a_range + 1 FOR NO KEY UPDATE;
    IF NOT FOUND OR held.boot <> a_boot OR held.epoch <> a_epoch OR held.released THEN
        RETURN 3;
    END IF;

    SELECT number INTO last FROM batch WHERE range = a_range AND epoch = a_epoch ORDER BY number DESC LIMIT 1;
    last := coalesce(last, 0);
    IF a_number <= last THEN
        PERFORM 1 FROM batch WHERE range = a_range AND epoch = a_epoch AND number = a_number AND header = a_header;
        RETURN CASE WHEN FOUND THEN 1 ELSE 2 END;
    ELSIF a_number > last + 1 OR a_gap THEN
        RETURN 2;
    END IF;

    IF 0 = ANY (o_first) THEN
        INSERT INTO organization (uuid)
            SELECT u FROM unnest(o_uuid, o_first) AS o (u, f)
            WHERE f = 0 AND NOT EXISTS (SELECT 1 FROM organization WHERE uuid = u)
            ON CONFLICT DO NOTHING;
    END IF;
    -- OFFSET 0 keeps b from being looked up once for each of its uses.
    SELECT array_agg(b ORDER BY i), bool_or(b IS NULL OR b + f <> coalesce(
            (SELECT id + 1 FROM entry WHERE id >= b AND id < b + (1::bigint << 32) ORDER BY id DESC LIMIT 1), b))
        INTO base, wrong
        FROM (SELECT i, f, (SELECT id::bigint << 32 FROM organization WHERE uuid = u) AS b
            FROM unnest(o_uuid, o_first) WITH ORDINALITY AS o (u, f, i) OFFSET 0) AS o;
    IF wrong THEN
        RETURN 2;
    END IF;

    INSERT INTO batch (range, epoch, number, header) VALUES (a_range, a_epoch, a_number, a_header);
    INSERT INTO entry (id, time, activity, kind, leaf, sealed)
        SELECT base[o] + s, t, nullif(a, '00000000-0000-0000-0000-000000000000'), nullif(k, 0), l, x
        FROM unnest(e_org, e_seq, e_time, e_activity, e_kind, e_leaf, e_sealed) AS e (o, s, t, a, k, l, x);
    IF cardinality(p_entry) > 0 THEN
        UPDATE entry SET next = base[e_org[p.e]] + e_seq[p.e]
            FROM unnest(p_entry, p_seq) AS p (e, s)
            WHERE entry.id = base[e_org[p.e]] + p.s AND entry.activity = e_activity[p.e] AND entry.next IS NULL;
    END IF;
    IF cardinality(n_org) > 0 THEN
        INSERT INTO node (id, hash) SELECT base[o] + i, h FROM unnest(n_org, n_offset, n_hash) AS n (o, i, h);
    END IF;
    IF cardinality(b_entry) > 0 THEN
        INSERT INTO blind (hash, entry) SELECT h, base[e_org[e]] + e_seq[e] FROM unnest(b_entry, b_hash) AS b (e, h)
            ON CONFLICT DO NOTHING;
    END IF;
    -- One by one: a batch may hold the same key twice, and the last one counts.
    FOR i IN 1 .. cardinality(k_uuid) LOOP
        INSERT INTO wrapped (organization, key, sealed) VALUES (k_uuid[i], k_key[i], k_sealed[i])
            ON CONFLICT (organization, key) DO UPDATE SET sealed = excluded.sealed;
    END LOOP;
    RETURN 1;
END $$;
-- +goose StatementEnd
ALTER TABLE entry DROP COLUMN range;
ALTER TABLE entry DROP COLUMN batch;
