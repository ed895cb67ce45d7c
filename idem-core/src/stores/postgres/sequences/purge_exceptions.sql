-- Removes at most $2 exceptions of sequences that have expired. Whoever has locked one is at it.
WITH expired AS MATERIALIZED (
    SELECT key
    FROM idem_records_sequences
    WHERE expires_at <= clock_timestamp() + $1 * interval '1 microsecond'
    ORDER BY expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
-- Whatever the clock does next: nobody takes what is lost of them for done.
settled AS (
    UPDATE idem_records_sequences SET joined = mark
    WHERE key = ANY (ARRAY(SELECT key FROM expired)) AND joined < mark
),
exception AS MATERIALIZED (
    SELECT listed.sequence, listed.number
    FROM expired
    JOIN idem_records_exceptions AS listed ON listed.sequence = expired.key
    LIMIT $2
),
removed AS (
    DELETE FROM idem_records_exceptions AS listed
    USING exception
    WHERE listed.sequence = exception.sequence AND listed.number = exception.number
    RETURNING true
)
SELECT count(*) FROM removed
