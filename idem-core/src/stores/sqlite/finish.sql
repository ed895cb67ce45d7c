-- Fails if the handler has ended the transaction by itself.
RELEASE idem_handler;
UPDATE "idem_records"
SET state = 'completed',
    outcome = ?3,
    lease_ends = NULL,
    retention = ?4,
    updated_at = ?5,
    forget_at = ?6
WHERE key = ?1 AND token = ?2 AND state = 'in_progress';
-- Fails, and so ends this, if the lease was not the current one.
SELECT json('fenced') WHERE changes() = 0;
-- Temporary tables that a handler has left: the connection is only lent again without any.
SELECT count(*) FROM pragma_database_list WHERE name <> 'main';
COMMIT;
-- For the next handler. It takes no lock, and reads nothing yet.
BEGIN DEFERRED;
SAVEPOINT idem_handler
