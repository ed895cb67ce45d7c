-- Keeps what is known of the sequence $1 from number $2 on, before $3, until $4 at least; but none that is
-- forgotten now, at $5, and none that is in progress, or to be tried again.
WITH kept AS MATERIALIZED (
    SELECT
        epoch + $4 * interval '1 microsecond' AS until,
        epoch + $5 * interval '1 microsecond' AS now
    FROM (SELECT timestamptz '2000-01-01 00:00:00+00') AS clock (epoch)
),
record AS MATERIALIZED (
    SELECT record.key
    FROM kept, generate_series($2::bigint, $3::bigint - 1) AS number
    CROSS JOIN LATERAL (
        SELECT key FROM idem_records
        WHERE key = $1 || '~' || number AND forget_at < kept.until AND forget_at > kept.now
            AND (state = 'completed' OR reason IN ('gave_up', 'quarantined'))
        FOR UPDATE SKIP LOCKED
    ) AS record
)
UPDATE idem_records SET forget_at = kept.until, purge_after = kept.until
FROM kept
WHERE key = ANY (ARRAY(SELECT key FROM record))
