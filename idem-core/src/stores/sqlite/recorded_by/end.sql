-- Fails if the handler has ended the transaction by itself.
RELEASE idem_handler;
-- Takes the write lock, also without a record: what is committed from here on is what this transaction has begun with.
DELETE FROM "idem_records"
WHERE key = ?1 AND token = ?2 AND state = 'in_progress';
-- Fails, and so ends this, if the lease was not the current one.
SELECT json('fenced') WHERE ?1 IS NOT NULL AND changes() = 0
