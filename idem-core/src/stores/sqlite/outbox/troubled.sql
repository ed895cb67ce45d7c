-- What may need somebody, as entries.sql tells it: ?1 now, ?2 how many of each kind at most. Those that were given up for
-- longest, the first of the lanes that stand, and what is due first.
WITH RECURSIVE next (lane) AS (
    SELECT min(lane) FROM "idem_records_outbox" WHERE lane IS NOT NULL
    UNION ALL
    SELECT (SELECT min(lane) FROM "idem_records_outbox" WHERE lane > next.lane)
    FROM next WHERE lane IS NOT NULL
    LIMIT 10000
), head (number) AS (
    SELECT (SELECT min(number) FROM "idem_records_outbox" AS message WHERE message.lane = next.lane)
    FROM next WHERE lane IS NOT NULL
), chosen (number) AS (
    SELECT * FROM (SELECT number FROM "idem_records_outbox" WHERE dead_since IS NOT NULL ORDER BY dead_since LIMIT ?2)
    UNION
    SELECT * FROM (
        SELECT number FROM "idem_records_outbox"
        WHERE number IN (SELECT number FROM head) AND (dead_since IS NOT NULL OR error IS NOT NULL) LIMIT ?2
    )
    UNION
    SELECT * FROM (
        SELECT number FROM "idem_records_outbox" WHERE lane IS NULL AND dead_since IS NULL ORDER BY due LIMIT ?2
    )
)
SELECT id, message_id, target, lane,
    CASE
        WHEN dead_since IS NOT NULL THEN 'dead'
        WHEN later IS NOT NULL AND due > ?1 AND attempts = 0 THEN 'later'
        ELSE 'waiting'
    END AS state,
    due, attempts, error, created_at AS created, length(body) AS bytes
FROM "idem_records_outbox"
WHERE number IN (SELECT number FROM chosen)
ORDER BY id
