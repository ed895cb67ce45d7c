-- Fails if the handler has ended the transaction by itself.
RELEASE idem_handler;
{moved}{sent}-- Several completions are one statement; outcomes are bytes, which JSON cannot hold.
UPDATE "idem_records"
SET state = 'completed',
    outcome = unhex(done.outcome),
    lease_ends = NULL,
    retention = done.retention,
    updated_at = ?2,
    forget_at = done.forget_at
FROM (
    SELECT value ->> 0 AS key,
           value ->> 1 AS token,
           value ->> 2 AS outcome,
           value ->> 3 AS retention,
           value ->> 4 AS forget_at
    FROM json_each(?1)
) AS done
WHERE "idem_records".key = done.key
    AND "idem_records".token = done.token
    AND "idem_records".state = 'in_progress';
-- Fails, and so ends this, if a lease was not the current one.
SELECT json('fenced') WHERE changes() <> json_array_length(?1);
-- Temporary tables that a handler has left: the connection is only lent again without any.
SELECT count(*) FROM pragma_database_list WHERE name <> 'main';
COMMIT;
-- For the next handler. It takes no lock, and reads nothing yet.
BEGIN DEFERRED;
SAVEPOINT idem_handler
