-- The session $1, which is nobody else's until the transaction ends.
SELECT
    mark, "window", life, ends_at,
    -- Read under the lock: whoever waited for it must not find a session living that has ended.
    clock_timestamp() + $2 * interval '1 microsecond' AS now
FROM (SELECT * FROM idem_records_sessions WHERE key = $1 FOR UPDATE) AS locked
