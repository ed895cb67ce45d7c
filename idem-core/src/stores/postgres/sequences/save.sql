-- Writes the sequence $1, whose row is locked; removes the records of the numbers $8, which are done,
-- and keeps the numbers $9 as exceptions. Records that somebody is at are not waited for: they are
-- forgotten after their retention.
WITH message AS MATERIALIZED (
    SELECT record.key
    FROM unnest($8::bigint[]) AS number
    CROSS JOIN LATERAL (
        SELECT key FROM idem_records
        WHERE key = $1 || '~' || number AND state = 'completed'
        FOR UPDATE SKIP LOCKED
    ) AS record
),
removed AS (
    DELETE FROM idem_records WHERE key = ANY (ARRAY(SELECT key FROM message))
),
excepted AS (
    INSERT INTO idem_records_exceptions (sequence, number)
    SELECT $1, number FROM unnest($9::bigint[]) AS number
    ON CONFLICT DO NOTHING
)
UPDATE idem_records_sequences SET
    mark = $2,
    "window" = $3,
    ahead_since = epoch + $4 * interval '1 microsecond',
    ahead_at = epoch + $5 * interval '1 microsecond',
    look_by = epoch + $6 * interval '1 microsecond',
    expires_at = epoch + $7 * interval '1 microsecond'
FROM (SELECT timestamptz '2000-01-01 00:00:00+00') AS clock (epoch)
WHERE key = $1
