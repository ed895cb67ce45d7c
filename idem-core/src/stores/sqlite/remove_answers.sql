-- The answers of session ?1 from number ?2 on, before ?3; what is in progress is no answer.
WITH RECURSIVE answer (number) AS (
    SELECT ?2
    UNION ALL
    SELECT number + 1 FROM answer WHERE number + 1 < ?3
)
DELETE FROM "idem_records"
WHERE key IN (SELECT ?1 || '~' || number FROM answer) AND state <> 'in_progress'
RETURNING token
