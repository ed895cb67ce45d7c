-- How the numbers of sequence ?1 from ?2 on, before ?3, stand that have records.
WITH RECURSIVE message (number) AS (
    SELECT ?2
    UNION ALL
    SELECT number + 1 FROM message WHERE number + 1 < ?3
)
SELECT message.number, record.state, record.reason, record.forget_at,
    coalesce(substr(record.outcome, 1, 1) = CAST('!' AS BLOB), false) AS refused
FROM message
CROSS JOIN "idem_records" AS record ON record.key = ?1 || '~' || message.number
