-- $1 skew, $2 only this state, $3 and $4 the ids' prefix and what is behind it, $5 behind this id, $6 how many, $7 only this.
SELECT id::text, message_id, target, lane,
    CASE
        WHEN dead_since IS NOT NULL THEN 'dead'
        WHEN later IS NOT NULL AND due > now AND attempts = 0 THEN 'later'
        ELSE 'waiting'
    END AS state,
    (extract(epoch FROM due) * 1000000)::bigint AS due,
    attempts, error,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created,
    octet_length(body)::bigint AS bytes,
    CASE WHEN $7::text IS NOT NULL THEN head END AS head,
    CASE WHEN $7::text IS NOT NULL THEN body END AS body
FROM idem_records_outbox, (SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now) AS clock
WHERE ($2::text IS NULL OR $2 = CASE
        WHEN dead_since IS NOT NULL THEN 'dead'
        WHEN later IS NOT NULL AND due > now AND attempts = 0 THEN 'later'
        ELSE 'waiting'
    END)
    AND ($3::text IS NULL OR message_id >= $3 AND message_id < $4)
    AND ($5::text IS NULL OR id > $5::uuid)
    AND ($7::text IS NULL OR id = $7::uuid)
ORDER BY id
LIMIT $6
