-- ?1 now; ?2 ids, errors, and in how many microseconds they are due again, or null.
UPDATE "idem_records_outbox" AS message
SET error = noted.error,
    due = ?1 + coalesce(noted.again, 0),
    dead_since = CASE WHEN noted.again IS NULL THEN ?1 END
FROM (SELECT value ->> 0 AS id, value ->> 1 AS error, value ->> 2 AS again FROM json_each(?2)) AS noted
WHERE message.id = noted.id
