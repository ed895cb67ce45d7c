-- $1 skew, $2 how many of each kind are read at most. By indexes alone, and from their ends: a backlog must not make it slow.
WITH RECURSIVE clock AS (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
), due AS (
    SELECT due, coalesce(later, created_at) AS since FROM idem_records_outbox
    WHERE lane IS NULL AND dead_since IS NULL AND due <= (SELECT now FROM clock)
    ORDER BY due
    LIMIT $2
-- A worker has them, they are tried again, or they are to leave later.
), not_due AS (
    SELECT coalesce(later, created_at) AS since, later IS NOT NULL AND attempts = 0 AS is_later FROM idem_records_outbox
    WHERE lane IS NULL AND dead_since IS NULL AND due > (SELECT now FROM clock)
    ORDER BY due
    LIMIT $2
), in_lane AS (
    SELECT coalesce(later, created_at) AS since,
        later IS NOT NULL AND attempts = 0 AND due > (SELECT now FROM clock) AS is_later
    FROM (SELECT * FROM idem_records_outbox WHERE lane IS NOT NULL ORDER BY lane, number LIMIT $2) AS message
    WHERE dead_since IS NULL
), waiting AS (
    SELECT since FROM due
    UNION ALL SELECT since FROM not_due WHERE NOT is_later
    UNION ALL SELECT since FROM in_lane WHERE NOT is_later
), later AS (
    SELECT 1 FROM not_due WHERE is_later
    UNION ALL SELECT 1 FROM in_lane WHERE is_later
), dead AS (
    SELECT 1 FROM idem_records_outbox WHERE dead_since IS NOT NULL LIMIT $2
-- The first of each lane: those behind it wait for it, and not to be taken.
), head AS (
    (
        SELECT lane, due, dead_since FROM idem_records_outbox
        WHERE lane IS NOT NULL ORDER BY lane, number LIMIT 1
    )
    UNION ALL
    SELECT next.lane, next.due, next.dead_since
    FROM head, LATERAL (
        SELECT lane, due, dead_since FROM idem_records_outbox
        WHERE lane > head.lane ORDER BY lane, number LIMIT 1
    ) AS next
), untaken AS (
    SELECT due FROM due
    UNION ALL (SELECT due FROM (SELECT * FROM head LIMIT $2) AS first WHERE dead_since IS NULL)
)
SELECT
    least($2, (SELECT count(*) FROM waiting)),
    least($2, (SELECT count(*) FROM later)),
    (SELECT count(*) FROM dead),
    coalesce(extract(epoch FROM now - (SELECT min(since) FROM waiting)) * 1000000, 0)::bigint,
    coalesce(extract(epoch FROM now - (SELECT min(due) FROM untaken)) * 1000000, 0)::bigint
FROM clock
