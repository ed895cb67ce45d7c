-- ?1 now; ?2 ids, errors, in how many microseconds they are due again, or null, how often they had been taken, and how often
-- they count as tried from now on. Nothing of what somebody else has taken since.
UPDATE "idem_records_outbox" AS message
SET error = noted.error,
    attempts = noted.tried,
    due = ?1 + coalesce(noted.again, 0),
    dead_since = CASE WHEN noted.again IS NULL THEN ?1 END
FROM (
    SELECT value ->> 0 AS id, value ->> 1 AS error, value ->> 2 AS again, value ->> 3 AS taken, value ->> 4 AS tried
    FROM json_each(?2)
) AS noted
WHERE message.id = noted.id AND message.attempts = noted.taken
