-- The mark of a stream: key, token, from and to.
UPDATE "idem_records_streams"
SET mark = max(coalesce(mark, 0), ?1 ->> 3)
WHERE key = ?1 ->> 0
    AND token = ?1 ->> 1
    AND coalesce(mark, 0) <= ?1 ->> 2;
-- Fails, and so ends this, if the lease was not the current one, or the mark was moved before.
SELECT json('fenced') WHERE changes() <> 1;
