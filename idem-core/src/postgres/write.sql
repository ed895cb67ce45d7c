-- A batch of writes, no key twice. A row per write: whether it took effect, and if not, the record.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
),
input AS (
    SELECT write.*, clock.now
    FROM clock, unnest(
        $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bytea[]
    ) WITH ORDINALITY AS write (key, token, kind, duration, reason, error, outcome, number)
),
-- In the order of their keys, so that two batches do not wait for each other.
locked AS MATERIALIZED (
    SELECT
        input.number, input.now, input.kind, input.duration,
        input.reason AS new_reason, input.error AS new_error, input.outcome AS new_outcome,
        input.token = record.token AND record.state = 'in_progress' AS held,
        record.*
    FROM input JOIN idem_records AS record ON record.key = input.key
    ORDER BY record.key
    FOR NO KEY UPDATE OF record
),
step AS (
    SELECT
        locked.*,
        CASE kind WHEN 'extend' THEN now + duration * interval '1 microsecond' END AS new_lease_ends,
        CASE WHEN kind = 'release' AND duration > 0
            THEN now + duration * interval '1 microsecond'
        END AS new_not_before,
        CASE kind WHEN 'complete' THEN duration ELSE retention END AS new_retention
    FROM locked
    WHERE held
),
written AS (
    UPDATE idem_records AS record SET
        state = CASE kind
            WHEN 'extend' THEN 'in_progress' WHEN 'complete' THEN 'completed' ELSE 'failed'
        END,
        reason = new_reason,
        error = new_error,
        outcome = new_outcome,
        lease_ends = new_lease_ends,
        not_before = new_not_before,
        retention = new_retention,
        updated_at = now,
        forget_at = forget.at,
        -- Left as it is where it still does: an index hangs on it.
        purge_after = CASE
            WHEN record.purge_after BETWEEN forget.at - interval '1 hour' AND forget.at
            THEN record.purge_after
            ELSE forget.at
        END,
        attempts = CASE new_reason
            WHEN 'abandoned' THEN greatest(record.attempts - 1, 0)
            WHEN 'gave_up' THEN 0
            ELSE record.attempts
        END,
        in_doubt = CASE
            WHEN new_reason IN ('failed', 'gave_up') THEN false ELSE record.in_doubt
        END,
        fingerprint = CASE
            WHEN new_reason = 'gave_up' THEN NULL
            -- Nothing of this content ran, so other content may come instead.
            WHEN new_reason = 'abandoned' AND (record.attempts <= 1 OR record.in_doubt) THEN NULL
            ELSE record.fingerprint
        END
    FROM step, LATERAL (
        SELECT coalesce(new_lease_ends, new_not_before, now)
            + new_retention * interval '1 microsecond'
    ) AS forget (at)
    WHERE record.key = step.key AND record.token = step.token AND record.state = 'in_progress'
    RETURNING record.key
)
SELECT
    input.number, input.now, written.key IS NOT NULL AS written,
    locked.token, attempts, in_doubt, owner, fingerprint, retention, forget_at,
    state, locked.reason, lease_ends, not_before,
    CASE WHEN written.key IS NULL AND state = 'completed' THEN ''::bytea END AS outcome
FROM input
LEFT JOIN locked USING (number)
LEFT JOIN written ON written.key = locked.key
