-- Removes at most $2 notes of what operators changed that are older than $3 microseconds.
WITH old AS MATERIALIZED (
    SELECT key, owner
    FROM idem_records_audit
    WHERE at <= clock_timestamp() + $1 * interval '1 microsecond' - $3 * interval '1 microsecond'
    ORDER BY at
    LIMIT $2
),
removed AS (
    DELETE FROM idem_records_audit AS noted
    USING old
    WHERE noted.key = old.key AND noted.owner = old.owner
    RETURNING true
)
SELECT count(*) FROM removed
