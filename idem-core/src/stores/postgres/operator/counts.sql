WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS updated_at
)
SELECT
    split_part(record.key, ':', 1) AS scope,
    count(*) FILTER (WHERE record.state = 'in_progress') AS in_progress,
    count(*) FILTER (
        WHERE record.state = 'in_progress'
            AND greatest(record.lease_ends, open.lease_ends) <= excluded.updated_at
    ) AS overdue,
    count(*) FILTER (WHERE record.state = 'completed') AS completed,
    count(*) FILTER (WHERE record.state = 'failed') AS failed,
    count(*) FILTER (WHERE record.reason = 'quarantined') AS quarantined,
    count(*) FILTER (WHERE {forgotten}) AS forgotten
FROM idem_records AS record
CROSS JOIN clock AS excluded
LEFT JOIN idem_records_open AS open
    ON record.state = 'in_progress' AND open.key = record.key AND open.token = record.token
GROUP BY scope
ORDER BY scope
