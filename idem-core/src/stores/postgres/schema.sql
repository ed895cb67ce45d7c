-- One row per key.
CREATE TABLE IF NOT EXISTS idem_records (
    key         text COLLATE "C" PRIMARY KEY,
    state       text        NOT NULL,   -- in_progress, completed or failed
    reason      text,                   -- of failed: failed, abandoned, gave_up or quarantined
    attempts    integer     NOT NULL,
    in_doubt    boolean     NOT NULL,   -- an attempt ended without a word
    token       bigint      NOT NULL,   -- fencing token of the last claim
    lease_ends  timestamptz,            -- of in_progress
    not_before  timestamptz,            -- of failed: when the next attempt is due, if not at once
    retention   bigint      NOT NULL,   -- microseconds
    created_at  timestamptz,            -- first claim; NULL if an earlier version has written it
    updated_at  timestamptz NOT NULL,   -- last write; of completed: when it was completed
    forget_at   timestamptz NOT NULL,   -- retention after the last write, lease_ends or not_before
    purge_after timestamptz NOT NULL,   -- when a purge looks at the row: at forget_at, or earlier by up to
                                        -- an hour or the lease
    owner       bytea       NOT NULL,   -- of the last claim
    fingerprint bytea,                  -- digest of the content
    error       text,                   -- of the last attempt that failed
    outcome     bytea                   -- of completed
)
-- Half of each page is left free: a batch of claims fills pages, and the batch of their completions
-- finds room for all new versions beside the old ones.
WITH (fillfactor = 50);

-- Tables of earlier versions lack it. It takes a lock on the table for a moment, and changes no row.
ALTER TABLE idem_records ADD COLUMN IF NOT EXISTS created_at timestamptz;

-- The only index besides the key's, and on a column that an update seldom changes: so that
-- updates stay within their page and touch no index (HOT).
CREATE INDEX IF NOT EXISTS idem_records_purge_after ON idem_records (purge_after);

-- Leases of open transactions, as their heartbeats extend them. They lie apart because a
-- transaction at REPEATABLE READ or SERIALIZABLE completes its record only if nobody has written
-- that record meanwhile. Transactions that messages share are marked here, too.
CREATE TABLE IF NOT EXISTS idem_records_open (
    key        text COLLATE "C" PRIMARY KEY,
    token      bigint      NOT NULL,
    lease_ends timestamptz NOT NULL
);

-- Sessions of clients that number their requests; the answers are records, SESSION~NUMBER.
CREATE TABLE IF NOT EXISTS idem_records_sessions (
    key       text COLLATE "C" PRIMARY KEY,
    mark      bigint      NOT NULL,     -- the lowest number whose answer is kept
    "window"  bigint      NOT NULL,     -- how many numbers from the mark on may be in use
    life      bigint      NOT NULL,     -- microseconds without a sign of life
    ends_at   timestamptz NOT NULL,     -- unless there is one
    remove_at timestamptz NOT NULL      -- a life after that, or a minute
);

CREATE INDEX IF NOT EXISTS idem_records_remove_at ON idem_records_sessions (remove_at);

-- Sequences of producers that number their messages; from the mark on these have records,
-- SEQUENCE~NUMBER.
CREATE TABLE IF NOT EXISTS idem_records_sequences (
    key         text COLLATE "C" PRIMARY KEY,
    joined      bigint      NOT NULL,   -- of what came before nobody knows
    mark        bigint      NOT NULL,   -- the lowest number that is not done
    "window"    bigint      NOT NULL,   -- how many numbers from the mark on may be in use
    ahead_since timestamptz NOT NULL,   -- since when others wait for what is missing, or 2000
    ahead_at    timestamptz NOT NULL,   -- when the last of them came
    look_by     timestamptz NOT NULL,   -- when the mark is to move, if it can
    expires_at  timestamptz NOT NULL
)
WITH (fillfactor = 50);

CREATE INDEX IF NOT EXISTS idem_records_expires_at ON idem_records_sequences (expires_at);

-- What is below the mark of a sequence and not done: it was given up, or never came.
CREATE TABLE IF NOT EXISTS idem_records_exceptions (
    sequence text COLLATE "C" NOT NULL,
    number   bigint           NOT NULL,
    PRIMARY KEY (sequence, number)
);

-- How far each handler has come in each stream, and who reads it. Kept until somebody sets it.
CREATE TABLE IF NOT EXISTS idem_records_streams (
    key        text COLLATE "C" PRIMARY KEY,    -- scope and stream
    token      bigint      NOT NULL,    -- fencing token of the last claim
    owner      bytea       NOT NULL,    -- of the last claim; empty if it was given back
    lease_ends timestamptz NOT NULL,    -- until then nobody else reads
    mark       bigint                   -- the lowest offset that is not done
)
WITH (fillfactor = 50);

-- What operators changed by hand; purged after 90 days.
CREATE TABLE IF NOT EXISTS idem_records_audit (
    key          text COLLATE "C" NOT NULL,
    at           timestamptz      NOT NULL,
    action       text             NOT NULL,     -- release, forget or complete
    by_whom      text             NOT NULL,
    state_before text,                          -- if there was a record
    token_before bigint,
    owner        bytea            NOT NULL,     -- of the intervention, which may be repeated
    PRIMARY KEY (key, owner)
);

-- What handlers have published, until the broker has confirmed it. A row is inserted, deleted, and seldom updated.
CREATE TABLE IF NOT EXISTS idem_records_outbox (
    id         uuid        PRIMARY KEY,
    message_id text COLLATE "C" NOT NULL,
    target     text        NOT NULL,    -- where it goes, for people
    head       bytea       NOT NULL,    -- how it is published
    body       bytea       NOT NULL,
    lane       text COLLATE "C",        -- those of one lane are published one after the other
    number     bigint,                  -- its place in the lane
    later      timestamptz,             -- when it was to leave, if not at once; until then it can be cancelled
    due        timestamptz NOT NULL,    -- nobody takes it before
    attempts   integer     NOT NULL,    -- how often it was taken
    error      text,                    -- of the last attempt that failed
    dead_since timestamptz,             -- given up: nobody takes it
    created_at timestamptz NOT NULL
);

CREATE INDEX IF NOT EXISTS idem_records_outbox_due ON idem_records_outbox (due)
WHERE lane IS NULL AND dead_since IS NULL;
CREATE INDEX IF NOT EXISTS idem_records_outbox_lane ON idem_records_outbox (lane, number)
WHERE lane IS NOT NULL;
CREATE INDEX IF NOT EXISTS idem_records_outbox_later ON idem_records_outbox (message_id)
WHERE later IS NOT NULL;
CREATE INDEX IF NOT EXISTS idem_records_outbox_dead ON idem_records_outbox (dead_since)
WHERE dead_since IS NOT NULL;

CREATE SEQUENCE IF NOT EXISTS idem_records_outbox_number AS bigint;

CREATE SEQUENCE IF NOT EXISTS idem_records_token AS bigint;

CREATE TABLE IF NOT EXISTS idem_records_meta (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- Completes a key inside its handler's transaction. The statement comes as text, so that COMMIT goes
-- in the same message; in a function the server keeps its plan. Key and outcome come as hexadecimal
-- digits, which are decoded here, because calls among the arguments are planned each time.
CREATE OR REPLACE FUNCTION idem_records_complete_one(
    of_key text, under_token bigint, with_outcome text, for_microseconds bigint, skew bigint
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
-- A plan that was made while the table was small would read all of it.
SET enable_seqscan = off
AS $$
DECLARE
    now    timestamptz := clock_timestamp() + skew * interval '1 microsecond';
    forget timestamptz := now + for_microseconds * interval '1 microsecond';
BEGIN
    IF current_setting('idem.transaction', true) IS DISTINCT FROM 'open' THEN
        RAISE 'the handler has ended its transaction by itself' USING ERRCODE = 'IDEM1';
    END IF;
    UPDATE idem_records AS record SET
        state = 'completed',
        outcome = decode(with_outcome, 'hex'),
        lease_ends = NULL,
        retention = for_microseconds,
        updated_at = now,
        forget_at = forget,
        -- Left as it is where it still does: an index hangs on it.
        purge_after = CASE
            WHEN record.purge_after BETWEEN forget - interval '1 hour' AND forget
            THEN record.purge_after
            ELSE forget
        END
    WHERE record.key = convert_from(decode(of_key, 'hex'), 'UTF8')
        AND record.token = under_token
        AND record.state = 'in_progress';
    IF NOT FOUND THEN
        RAISE 'the lease is no longer the current one' USING ERRCODE = 'IDEM2';
    END IF;
END
$$;

-- Moves the mark of a stream inside the transaction of its handler, for the one who reads it, and once: what is below the
-- mark is done. The lease is left as it is. The stream comes as hexadecimal digits.
CREATE OR REPLACE FUNCTION idem_records_move_mark(
    of_key text, under_token bigint, from_mark bigint, to_mark bigint
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
AS $$
BEGIN
    IF current_setting('idem.transaction', true) IS DISTINCT FROM 'open' THEN
        RAISE 'the handler has ended its transaction by itself' USING ERRCODE = 'IDEM1';
    END IF;
    UPDATE idem_records_streams AS stream SET
        mark = greatest(stream.mark, to_mark)
    WHERE stream.key = convert_from(decode(of_key, 'hex'), 'UTF8')
        AND stream.token = under_token
        AND coalesce(stream.mark, 0) <= from_mark;
    IF NOT FOUND THEN
        RAISE 'the lease of the stream is no longer the current one, or its mark was moved before'
            USING ERRCODE = 'IDEM2';
    END IF;
END
$$;

-- Completes the keys of a group inside the transaction that its handlers have shared: all or none.
-- Keys and outcomes come as hexadecimal digits, the keys in their order.
CREATE OR REPLACE FUNCTION idem_records_complete_all(
    of_keys text[], under_tokens bigint[], with_outcomes text[], for_microseconds bigint[], skew bigint
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
-- So that rows are locked in the order of their keys, as batches of claims and writes lock them.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    now       timestamptz := clock_timestamp() + skew * interval '1 microsecond';
    completed bigint;
BEGIN
    IF current_setting('idem.transaction', true) IS DISTINCT FROM 'open' THEN
        RAISE 'a handler has ended the transaction by itself' USING ERRCODE = 'IDEM1';
    END IF;
    UPDATE idem_records AS record SET
        state = 'completed',
        outcome = decode(done.outcome, 'hex'),
        lease_ends = NULL,
        retention = done.retention,
        updated_at = now,
        forget_at = done.forget,
        purge_after = CASE
            WHEN record.purge_after BETWEEN done.forget - interval '1 hour' AND done.forget
            THEN record.purge_after
            ELSE done.forget
        END
    FROM (
        SELECT convert_from(decode(key, 'hex'), 'UTF8') AS key, token, outcome, retention,
            now + retention * interval '1 microsecond' AS forget
        FROM unnest(of_keys, under_tokens, with_outcomes, for_microseconds)
            AS told (key, token, outcome, retention)
    ) AS done
    WHERE record.key = done.key
        AND record.token = done.token
        AND record.state = 'in_progress';
    GET DIAGNOSTICS completed = ROW_COUNT;
    IF completed <> cardinality(of_keys) THEN
        RAISE 'a lease is no longer the current one' USING ERRCODE = 'IDEM2';
    END IF;
END
$$;

-- Ends an attempt in its handler's transaction whose handler's own table records what was handled:
-- nothing of the attempt stays here. The rows with the message's key come as the transactions that
-- have written them; NULL if nobody has looked.
CREATE OR REPLACE FUNCTION idem_records_recorded(
    written_by xid[], of_key text, under_token bigint
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
AS $$
DECLARE
    own    bigint := pg_current_xact_id_if_assigned()::text::bigint;
    is_own boolean := written_by IS NULL OR (own & 4294967295)::text::xid = ANY (written_by);
    number bigint;
BEGIN
    IF current_setting('idem.transaction', true) IS DISTINCT FROM 'open' THEN
        RAISE 'the handler has ended its transaction by itself' USING ERRCODE = 'IDEM1';
    END IF;
    IF cardinality(written_by) = 0 THEN
        RAISE 'the handler has left no row with the message''s key' USING ERRCODE = 'IDEM3';
    END IF;
    -- A row that is seen and whose writer has not committed is this transaction's own. A savepoint
    -- writes under a number of its own, which is greater than the transaction's.
    IF NOT is_own THEN
        FOR number IN
            SELECT own + ((writer::text::bigint - own) & 4294967295)
            FROM unnest(written_by) AS writer
        LOOP
            BEGIN
                is_own := is_own OR pg_xact_status(number::text::xid8) = 'in progress';
            EXCEPTION WHEN invalid_parameter_value THEN
                -- Nobody has that number yet: the row was written that much longer ago, when
                -- the numbers had not come round again.
            END;
        END LOOP;
    END IF;
    IF is_own IS NOT TRUE THEN
        RAISE 'the row with the message''s key was there before' USING ERRCODE = 'IDEM4';
    END IF;
    IF under_token IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM idem_records AS record
    WHERE record.key = of_key
        AND record.token = under_token
        AND record.state = 'in_progress';
    IF NOT FOUND THEN
        RAISE 'the lease is no longer the current one' USING ERRCODE = 'IDEM2';
    END IF;
END
$$;

-- Writes what a handler has published, inside its transaction. Texts and bytes come as hexadecimal digits. When it can be
-- taken comes as microseconds from now, or since 1970.
CREATE OR REPLACE FUNCTION idem_records_send(
    ids uuid[], message_ids text[], targets text[], heads text[], bodies text[], lanes text[],
    laters boolean[], froms bigint[], ats bigint[], skew bigint
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    now     timestamptz := clock_timestamp() + skew * interval '1 microsecond';
    of_lane text;
BEGIN
    -- Until the commit: whoever has a higher number commits later. In one order, so that two transactions with several
    -- lanes do not wait for each other.
    FOR of_lane IN SELECT DISTINCT lane FROM unnest(lanes) AS sent (lane) WHERE lane IS NOT NULL ORDER BY lane LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended('idem_records_outbox ' || of_lane, 0));
    END LOOP;
    INSERT INTO idem_records_outbox
        (id, message_id, target, head, body, lane, number, later, due, attempts, created_at)
    SELECT id,
        convert_from(decode(message_id, 'hex'), 'UTF8'),
        convert_from(decode(target, 'hex'), 'UTF8'),
        decode(head, 'hex'),
        decode(body, 'hex'),
        convert_from(decode(lane, 'hex'), 'UTF8'),
        CASE WHEN lane IS NOT NULL THEN nextval('idem_records_outbox_number') END,
        CASE WHEN later THEN due END,
        due,
        0,
        now
    FROM unnest(ids, message_ids, targets, heads, bodies, lanes, laters, froms, ats)
        WITH ORDINALITY AS sent (id, message_id, target, head, body, lane, later, from_now, at, place),
        LATERAL (SELECT coalesce(
            now + from_now * interval '1 microsecond',
            greatest(now, timestamptz 'epoch' + at * interval '1 microsecond')
        )) AS free (due)
    ORDER BY place
    -- Sent again, because the answer was lost: the completion behind it is refused then, and says so.
    ON CONFLICT (id) DO NOTHING;
END
$$;

-- An outcome for people: as JSON if it is JSON; else its text, or its bytes as hexadecimal digits.
CREATE OR REPLACE FUNCTION idem_records_shown(outcome bytea) RETURNS json
LANGUAGE plpgsql
IMMUTABLE STRICT
AS $$
BEGIN
    RETURN convert_from(outcome, 'UTF8')::json;
EXCEPTION WHEN data_exception THEN
    BEGIN
        RETURN to_json(convert_from(outcome, 'UTF8'));
    EXCEPTION WHEN data_exception THEN
        RETURN to_json(encode(outcome, 'hex'));
    END;
END
$$;

-- The records for people. No program reads it.
CREATE OR REPLACE VIEW idem_records_readable AS
SELECT
    record.key,
    record.state,
    record.reason,
    record.error,
    record.attempts,
    record.in_doubt,
    record.token,
    idem_records_shown(record.outcome) AS outcome,
    record.created_at,
    CASE WHEN record.state = 'completed' THEN record.updated_at END AS completed_at,
    greatest(record.lease_ends, open.lease_ends) AS lease_ends,
    record.not_before,
    record.updated_at,
    record.forget_at
FROM idem_records AS record
LEFT JOIN idem_records_open AS open
    ON record.state = 'in_progress' AND open.key = record.key AND open.token = record.token;

INSERT INTO idem_records_meta (name, value) VALUES ('version', 1) ON CONFLICT DO NOTHING;
