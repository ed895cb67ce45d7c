-- What the handlers have published.
INSERT INTO "idem_records_outbox"
    (id, message_id, target, head, body, lane, later, due, attempts, created_at)
SELECT value ->> 0,
       value ->> 1,
       value ->> 2,
       unhex(value ->> 3),
       unhex(value ->> 4),
       value ->> 5,
       CASE WHEN value ->> 6 THEN value ->> 7 END,
       value ->> 7,
       0,
       ?2
FROM json_each(?1)
ORDER BY key;
