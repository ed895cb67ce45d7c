-- How the numbers of sequence ?1 from ?2 on, before ?3, stand that have records.
WITH RECURSIVE message (number) AS (
    SELECT ?2
    UNION ALL
    SELECT number + 1 FROM message WHERE number + 1 < ?3
)
SELECT message.number, record.token, record.attempts, record.in_doubt, record.owner, record.fingerprint,
    record.retention, record.forget_at, record.state, record.reason, record.lease_ends, record.not_before,
    -- SQLite has no part of what is empty.
    coalesce(substr(record.outcome, 1, 1), record.outcome) AS outcome
FROM message
CROSS JOIN "idem_records" AS record ON record.key = ?1 || '~' || message.number
