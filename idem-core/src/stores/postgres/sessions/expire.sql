-- Removes at most $2 sessions that ended long enough ago, and their answers. Whoever has
-- locked any of them is at it already.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
),
ended AS MATERIALIZED (
    SELECT key, mark, "window"
    FROM idem_records_sessions
    WHERE remove_at <= (SELECT now FROM clock)
    ORDER BY remove_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
answer AS MATERIALIZED (
    SELECT record.key
    FROM ended
    CROSS JOIN LATERAL (
        SELECT key FROM idem_records
        -- The keys as an array: a series by itself counts as 1,000 rows for each session. That
        -- brings the statement's cost above `jit_above_cost`, and each run compiles it for 200 ms.
        WHERE key = ANY (ARRAY(
            SELECT ended.key || '~' || number
            FROM generate_series(ended.mark, ended.mark + ended."window" - 1) AS number
        )) AND state <> 'in_progress'
        FOR UPDATE SKIP LOCKED
    ) AS record
),
forgotten AS (
    DELETE FROM idem_records WHERE key = ANY (ARRAY(SELECT key FROM answer))
),
removed AS (
    DELETE FROM idem_records_sessions
    WHERE key = ANY (ARRAY(SELECT key FROM ended))
    RETURNING key
)
SELECT count(*) FROM removed
