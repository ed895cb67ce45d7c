-- The outcome stays where it is: it may be large.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
)
SELECT
    input.key, clock.now, record.token, attempts, in_doubt, record.owner, record.fingerprint,
    record.retention, record.forget_at, created_at, updated_at, record.state, record.reason, error,
    record.lease_ends, record.not_before,
    CASE WHEN record.outcome IS NOT NULL THEN ''::bytea END AS outcome,
    octet_length(record.outcome)::bigint AS outcome_bytes
FROM clock
CROSS JOIN LATERAL (
    SELECT key, error, created_at, updated_at
    FROM idem_records
    WHERE key > $2
        AND ($3::text IS NULL OR state = $3)
        AND updated_at <= clock.now - $4 * interval '1 microsecond'
        -- A range of the index, in which everything begins so.
        AND key BETWEEN $5 AND $6
    ORDER BY key
    LIMIT $7
) AS input
CROSS JOIN LATERAL ({record}) AS record
ORDER BY input.key
