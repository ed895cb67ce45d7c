-- Removes at most $2 forgotten records, and the leases of open transactions that are no more. It reads the index of purge
-- times from $3 on (microseconds since 1970), and tells how far it came.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
),
forgotten AS MATERIALIZED (
    SELECT record.key, record.ctid AS place, record.purge_after
    FROM idem_records AS record
    CROSS JOIN LATERAL (SELECT now AS updated_at FROM clock) AS excluded
    WHERE record.purge_after <= (SELECT now FROM clock)
        -- By two columns, so that the planner does not take the two limits for a short range, which it would read whole and
        -- sort.
        AND (record.purge_after, record.key)
            >= (coalesce('epoch'::timestamptz + $3 * interval '1 microsecond', '-infinity'), '')
        AND {forgotten}
    ORDER BY record.purge_after
    LIMIT $2
    FOR UPDATE OF record SKIP LOCKED
),
-- By their places, which takes a quarter less time than by their keys. The key tells apart what has the same place in
-- another partition.
-- docs/decisions/0053
removed AS (
    DELETE FROM idem_records AS record
    USING forgotten
    WHERE record.ctid = forgotten.place AND record.key = forgotten.key
    RETURNING record.key
),
closed AS (
    DELETE FROM idem_records_open AS open
    USING clock
    WHERE open.lease_ends <= clock.now
        AND NOT EXISTS (
            SELECT FROM idem_records AS record
            WHERE record.key = open.key
                AND record.token = open.token
                AND record.state = 'in_progress'
        )
)
SELECT
    (SELECT count(*) FROM removed),
    (SELECT (extract(epoch FROM max(purge_after)) * 1000000)::bigint FROM forgotten)
