-- ?1 now, ?2 only this state, ?3 and ?4 the ids' prefix and what is behind it, ?5 behind this id, ?6 how many, ?7 only this.
SELECT * FROM (
    SELECT id, message_id, target, lane,
        CASE
            WHEN dead_since IS NOT NULL THEN 'dead'
            WHEN later IS NOT NULL AND due > ?1 AND attempts = 0 THEN 'later'
            ELSE 'waiting'
        END AS state,
        due, attempts, error, created_at AS created, length(body) AS bytes,
        CASE WHEN ?7 IS NOT NULL THEN head END AS head,
        CASE WHEN ?7 IS NOT NULL THEN body END AS body
    FROM "idem_records_outbox"
    WHERE (?3 IS NULL OR message_id >= ?3 AND message_id < ?4)
        AND (?5 IS NULL OR id > ?5)
        AND (?7 IS NULL OR id = ?7)
)
WHERE ?2 IS NULL OR state = ?2
ORDER BY id
LIMIT ?6
