-- The sequences $1, which are nobody else's until the transaction ends: a row each, without a key if
-- there is none.
SELECT
    input.sequence,
    locked.*,
    -- Read under the lock: whoever waited for it must not find time standing still.
    clock_timestamp() + $2 * interval '1 microsecond' AS now
FROM (
    SELECT sequence
    FROM unnest((SELECT $1::text[])) AS sequence
    -- In one order, so that two who lock several do not wait for each other.
    ORDER BY sequence COLLATE "C"
) AS input
LEFT JOIN LATERAL (
    SELECT key, joined, mark, "window", ahead_since, ahead_at, look_by, expires_at
    FROM idem_records_sequences
    WHERE key = input.sequence
    FOR UPDATE
) AS locked ON true
