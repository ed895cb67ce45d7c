-- ?1 now, ?2 how many at most, ?3 until when nobody else takes them, ?4 how many bytes at most, but always one. Of each lane
-- the first one, from lane to lane.
WITH RECURSIVE next (lane) AS (
    SELECT min(lane) FROM "idem_records_outbox" WHERE lane IS NOT NULL
    UNION ALL
    SELECT (SELECT min(lane) FROM "idem_records_outbox" WHERE lane > next.lane)
    FROM next WHERE lane IS NOT NULL
), head (number) AS (
    SELECT (SELECT min(number) FROM "idem_records_outbox" AS message WHERE message.lane = next.lane)
    FROM next WHERE lane IS NOT NULL
), single AS (
    SELECT number, due, length(head) + length(body) AS bytes FROM "idem_records_outbox"
    WHERE lane IS NULL AND dead_since IS NULL AND due <= ?1
    ORDER BY due
    LIMIT ?2
), in_lane AS (
    SELECT message.number, due, length(message.head) + length(body) AS bytes
    FROM head JOIN "idem_records_outbox" AS message ON message.number = head.number
    WHERE dead_since IS NULL AND due <= ?1
), due AS (
    SELECT number, row_number() OVER longest AS place, sum(bytes) OVER longest AS total
    FROM (SELECT * FROM single UNION ALL SELECT * FROM in_lane)
    WINDOW longest AS (ORDER BY due, number)
)
UPDATE "idem_records_outbox"
SET due = ?3, attempts = attempts + 1
WHERE number IN (SELECT number FROM due WHERE place <= ?2 AND (total <= ?4 OR place = 1))
RETURNING id, message_id, target, head, body, attempts, lane IS NOT NULL AS in_lane
