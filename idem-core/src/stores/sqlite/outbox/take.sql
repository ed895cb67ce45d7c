-- ?1 now, ?2 how many at most, ?3 until when nobody else takes them. Of each lane the first one, from lane to lane.
WITH RECURSIVE next (lane) AS (
    SELECT min(lane) FROM "idem_records_outbox" WHERE lane IS NOT NULL
    UNION ALL
    SELECT (SELECT min(lane) FROM "idem_records_outbox" WHERE lane > next.lane)
    FROM next WHERE lane IS NOT NULL
), head (number) AS (
    SELECT (SELECT min(number) FROM "idem_records_outbox" AS message WHERE message.lane = next.lane)
    FROM next WHERE lane IS NOT NULL
), single (number) AS (
    SELECT number FROM "idem_records_outbox"
    WHERE lane IS NULL AND dead_since IS NULL AND due <= ?1
    ORDER BY due
    LIMIT ?2
)
UPDATE "idem_records_outbox"
SET due = ?3, attempts = attempts + 1
WHERE number IN (
    SELECT number FROM single
    UNION ALL
    SELECT message.number FROM head JOIN "idem_records_outbox" AS message ON message.number = head.number
    WHERE dead_since IS NULL AND due <= ?1
    LIMIT ?2
)
RETURNING id, message_id, target, head, body, attempts, lane IS NOT NULL AS in_lane
