-- Takes what is due: $1 skew, $2 how many at most, $3 for how long, $4 how long ago it was looked for the last time, $5 how
-- many bytes at most, but always one. The index holds what was deleted long ago, too, as long as any transaction may see
-- it: so it is read from there on only.
WITH RECURSIVE clock AS (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
), single AS (
    SELECT id, due, octet_length(head) + octet_length(body) AS bytes FROM idem_records_outbox
    WHERE lane IS NULL AND dead_since IS NULL
        AND due <= (SELECT now FROM clock)
        AND due >= coalesce((SELECT now FROM clock) - $4 * interval '1 microsecond', '-infinity')
    ORDER BY due
    LIMIT $2
    FOR UPDATE SKIP LOCKED
-- The first of each lane, from lane to lane.
), head AS (
    (
        SELECT lane, id FROM idem_records_outbox
        WHERE lane IS NOT NULL ORDER BY lane, number LIMIT 1
    )
    UNION ALL
    SELECT next.lane, next.id
    FROM head, LATERAL (
        SELECT lane, id FROM idem_records_outbox
        WHERE lane > head.lane ORDER BY lane, number LIMIT 1
    ) AS next
), in_lane AS (
    SELECT id, due, octet_length(head) + octet_length(body) AS bytes FROM idem_records_outbox
    WHERE id IN (SELECT id FROM head) AND dead_since IS NULL AND due <= (SELECT now FROM clock)
    ORDER BY due
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), due AS (
    SELECT id, row_number() OVER longest AS place, sum(bytes) OVER longest AS total
    FROM (SELECT * FROM single UNION ALL SELECT * FROM in_lane) AS both_kinds
    WINDOW longest AS (ORDER BY due, id)
), taken AS (
    SELECT id FROM due WHERE place <= $2 AND (total <= $5 OR place = 1)
)
UPDATE idem_records_outbox AS message
SET due = (SELECT now FROM clock) + $3 * interval '1 microsecond', attempts = message.attempts + 1
FROM taken
WHERE message.id = taken.id
RETURNING message.id::text, message.message_id, message.target, message.head, message.body, message.attempts,
    message.lane IS NOT NULL AS in_lane
