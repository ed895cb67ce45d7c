-- A batch of writes, no key twice. A row per write: whether it took effect, and if not, the record.
WITH input AS (
    -- A row that somebody keeps locked must not keep the others of the batch waiting for long.
    SELECT write.*
    -- Behind sub-selects, so that the plan does not depend on how many there are, and is kept.
    FROM set_config('lock_timeout', '{lock_timeout}', true), unnest(
        (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::text[]), (SELECT $5::bigint[]),
        (SELECT $6::text[]), (SELECT $7::text[]), (SELECT $8::bytea[])
    ) AS write (key, token, kind, duration, reason, error, outcome)
    ORDER BY key COLLATE "C"
),
-- In the order of their keys, so that two batches do not wait for each other.
locked AS MATERIALIZED (
    SELECT
        -- Read under the row's lock: a statement that waited for it, perhaps until nobody waits for
        -- its answer any more, must not put a lease back to where it was.
        clock_timestamp() + $1 * interval '1 microsecond' AS now,
        input.kind, input.duration,
        input.reason AS new_reason, input.error AS new_error, input.outcome AS new_outcome,
        input.token = record.token AND record.state = 'in_progress' AS held,
        record.*
    FROM input
    CROSS JOIN LATERAL (
        SELECT * FROM idem_records WHERE key = input.key FOR NO KEY UPDATE
    ) AS record
),
-- An update of the locked rows, in a form that finds them by their key whatever the planner thinks.
written AS (
    INSERT INTO idem_records AS record (
        key, state, reason, error, outcome, attempts, in_doubt, token, lease_ends, not_before,
        retention, updated_at, forget_at, purge_after, owner, fingerprint
    )
    SELECT
        key,
        CASE kind
            WHEN 'extend' THEN 'in_progress' WHEN 'complete' THEN 'completed' ELSE 'failed'
        END,
        new_reason,
        new_error,
        new_outcome,
        CASE new_reason
            WHEN 'abandoned' THEN greatest(attempts - 1, 0) WHEN 'gave_up' THEN 0 ELSE attempts
        END,
        CASE WHEN new_reason IN ('failed', 'gave_up') THEN false ELSE in_doubt END,
        token,
        CASE kind WHEN 'extend' THEN later.at END,
        CASE WHEN kind = 'release' AND duration > 0 THEN later.at END,
        memory.lasts,
        now,
        forget.at,
        -- Left as it is where it still does: an index hangs on it.
        CASE
            WHEN purge_after BETWEEN forget.at - interval '1 hour' AND forget.at THEN purge_after
            ELSE forget.at
        END,
        owner,
        CASE
            WHEN new_reason = 'gave_up' THEN NULL
            -- Nothing of this content ran, so other content may come instead.
            WHEN new_reason = 'abandoned' AND (attempts <= 1 OR in_doubt) THEN NULL
            ELSE fingerprint
        END
    FROM locked,
    LATERAL (SELECT now + duration * interval '1 microsecond') AS later (at),
    LATERAL (
        SELECT CASE kind WHEN 'complete' THEN duration ELSE retention END
    ) AS memory (lasts),
    LATERAL (
        SELECT
            CASE kind WHEN 'complete' THEN now ELSE later.at END
            + memory.lasts * interval '1 microsecond'
    ) AS forget (at)
    WHERE held
    ON CONFLICT (key) DO UPDATE SET
        state = excluded.state,
        reason = excluded.reason,
        error = excluded.error,
        outcome = excluded.outcome,
        attempts = excluded.attempts,
        in_doubt = excluded.in_doubt,
        lease_ends = excluded.lease_ends,
        not_before = excluded.not_before,
        retention = excluded.retention,
        updated_at = excluded.updated_at,
        forget_at = excluded.forget_at,
        purge_after = excluded.purge_after,
        fingerprint = excluded.fingerprint
    RETURNING record.key
)
SELECT
    key, now, key IN (SELECT key FROM written) AS written,
    token, attempts, in_doubt, owner, fingerprint, retention, forget_at,
    state, reason, lease_ends, not_before, outcome
FROM locked
