-- Writes the session $1, and removes its answers from number $4 on, before $5. Its row is locked, so
-- nobody else writes any, but for workers: what they have in hand is no answer yet, and not waited for.
-- First the records, then the sessions: in the order in which the tables are created.
WITH answer AS MATERIALIZED (
    SELECT record.key
    FROM generate_series($4::bigint, $5::bigint - 1) AS number
    CROSS JOIN LATERAL (
        SELECT key FROM idem_records
        WHERE key = $1 || '~' || number AND state <> 'in_progress'
        FOR UPDATE SKIP LOCKED
    ) AS record
),
removed AS (
    DELETE FROM idem_records WHERE key = ANY (ARRAY(SELECT key FROM answer))
)
UPDATE idem_records_sessions SET
    mark = $2,
    ends_at = moment.ends_at,
    remove_at = moment.ends_at + greatest(life, 60000000) * interval '1 microsecond'
FROM (
    SELECT timestamptz '2000-01-01 00:00:00+00' + $3 * interval '1 microsecond' AS ends_at
) AS moment
WHERE key = $1
