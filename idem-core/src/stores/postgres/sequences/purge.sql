-- Removes at most $2 sequences that have expired and have no exceptions left.
WITH expired AS MATERIALIZED (
    SELECT key
    FROM idem_records_sequences
    WHERE expires_at <= clock_timestamp() + $1 * interval '1 microsecond'
        AND NOT EXISTS (SELECT FROM idem_records_exceptions WHERE sequence = key)
    ORDER BY expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM idem_records_sequences
    WHERE key = ANY (ARRAY(SELECT key FROM expired))
    RETURNING true
)
SELECT count(*) FROM removed
