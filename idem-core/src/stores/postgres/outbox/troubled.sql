-- What may need somebody, as entries.sql tells it: $1 skew, $2 how many of each kind at most. Those that were given up for
-- longest, the first of the lanes that stand, and what is due first.
WITH RECURSIVE clock AS (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
), head AS (
    (
        SELECT lane, id, dead_since, error FROM idem_records_outbox
        WHERE lane IS NOT NULL ORDER BY lane, number LIMIT 1
    )
    UNION ALL
    SELECT next.lane, next.id, next.dead_since, next.error
    FROM head, LATERAL (
        SELECT lane, id, dead_since, error FROM idem_records_outbox
        WHERE lane > head.lane ORDER BY lane, number LIMIT 1
    ) AS next
), chosen AS (
    (SELECT id FROM idem_records_outbox WHERE dead_since IS NOT NULL ORDER BY dead_since LIMIT $2)
    UNION (
        SELECT id FROM (SELECT * FROM head LIMIT 10000) AS first
        WHERE dead_since IS NOT NULL OR error IS NOT NULL LIMIT $2
    )
    UNION (SELECT id FROM idem_records_outbox WHERE lane IS NULL AND dead_since IS NULL ORDER BY due LIMIT $2)
)
SELECT id::text, message_id, target, lane,
    CASE
        WHEN dead_since IS NOT NULL THEN 'dead'
        WHEN later IS NOT NULL AND due > now AND attempts = 0 THEN 'later'
        ELSE 'waiting'
    END AS state,
    (extract(epoch FROM due) * 1000000)::bigint AS due,
    attempts, error,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created,
    octet_length(body)::bigint AS bytes
FROM idem_records_outbox, clock
WHERE id = ANY (ARRAY(SELECT id FROM chosen))
ORDER BY id
