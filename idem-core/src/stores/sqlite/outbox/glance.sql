-- ?1 now, ?2 how many of each kind are read at most. By indexes alone, and from their ends: a backlog must not make it slow.
WITH RECURSIVE due AS (
    SELECT due, coalesce(later, created_at) AS since FROM "idem_records_outbox"
    WHERE lane IS NULL AND dead_since IS NULL AND due <= ?1
    ORDER BY due
    LIMIT ?2
-- A worker has them, they are tried again, or they are to leave later.
), not_due AS (
    SELECT coalesce(later, created_at) AS since, later IS NOT NULL AND attempts = 0 AS is_later FROM "idem_records_outbox"
    WHERE lane IS NULL AND dead_since IS NULL AND due > ?1
    ORDER BY due
    LIMIT ?2
), in_lane AS (
    SELECT coalesce(later, created_at) AS since, later IS NOT NULL AND attempts = 0 AND due > ?1 AS is_later
    FROM (SELECT * FROM "idem_records_outbox" WHERE lane IS NOT NULL ORDER BY lane, number LIMIT ?2)
    WHERE dead_since IS NULL
), waiting AS (
    SELECT since FROM due
    UNION ALL SELECT since FROM not_due WHERE NOT is_later
    UNION ALL SELECT since FROM in_lane WHERE NOT is_later
), later AS (
    SELECT 1 FROM not_due WHERE is_later
    UNION ALL SELECT 1 FROM in_lane WHERE is_later
), dead AS (
    SELECT 1 FROM "idem_records_outbox" WHERE dead_since IS NOT NULL LIMIT ?2
-- The first of each lane: those behind it wait for it, and not to be taken.
), next (lane) AS (
    SELECT min(lane) FROM "idem_records_outbox" WHERE lane IS NOT NULL
    UNION ALL
    SELECT (SELECT min(lane) FROM "idem_records_outbox" WHERE lane > next.lane)
    FROM next WHERE lane IS NOT NULL
    LIMIT ?2
), head (number) AS (
    SELECT (SELECT min(number) FROM "idem_records_outbox" AS message WHERE message.lane = next.lane)
    FROM next WHERE lane IS NOT NULL
), untaken AS (
    SELECT due FROM due
    UNION ALL
    SELECT due FROM head JOIN "idem_records_outbox" AS message ON message.number = head.number
    WHERE dead_since IS NULL
)
SELECT
    min(?2, (SELECT count(*) FROM waiting)),
    min(?2, (SELECT count(*) FROM later)),
    (SELECT count(*) FROM dead),
    coalesce(?1 - (SELECT min(since) FROM waiting), 0),
    coalesce(?1 - (SELECT min(due) FROM untaken), 0)
