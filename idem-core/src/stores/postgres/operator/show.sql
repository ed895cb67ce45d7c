WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
)
SELECT
    input.key, clock.now, record.token, attempts, in_doubt, record.owner, record.fingerprint,
    record.retention, record.forget_at, created_at, updated_at, record.state, record.reason, error,
    record.lease_ends, record.not_before,
    record.outcome,
    octet_length(record.outcome)::bigint AS outcome_bytes
FROM clock
CROSS JOIN (SELECT key, error, created_at, updated_at FROM idem_records WHERE key = $2) AS input
CROSS JOIN LATERAL ({record}) AS record
