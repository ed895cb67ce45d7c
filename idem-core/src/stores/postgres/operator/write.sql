-- The record of a locked key, or the first one of a key. None if another has made that meanwhile.
INSERT INTO idem_records AS record (
    key, state, reason, error, attempts, in_doubt, token, retention, owner, fingerprint, outcome,
    created_at, updated_at, forget_at, purge_after
)
SELECT
    $2, $3, $4, $5, $6, $7, nextval('idem_records_token'), $8, $9, $10, $11,
    clock.now, clock.now, forget.at, forget.at
FROM (SELECT clock_timestamp() + $1 * interval '1 microsecond') AS clock (now),
LATERAL (SELECT clock.now + $8 * interval '1 microsecond') AS forget (at)
ON CONFLICT (key) DO UPDATE SET
    state = excluded.state,
    reason = excluded.reason,
    error = excluded.error,
    in_doubt = excluded.in_doubt,
    token = greatest(record.token + 1, excluded.token),
    retention = excluded.retention,
    outcome = excluded.outcome,
    lease_ends = NULL,
    not_before = NULL,
    updated_at = excluded.updated_at,
    forget_at = excluded.forget_at,
    purge_after = excluded.purge_after
WHERE $12
