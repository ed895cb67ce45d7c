-- Keeps what is known of sequence ?1 from number ?2 on, before ?3, until ?4 at least; but none that is
-- forgotten now, at ?5, and none that is in progress, or to be tried again.
WITH RECURSIVE kept (number) AS (
    SELECT ?2
    UNION ALL
    SELECT number + 1 FROM kept WHERE number + 1 < ?3
)
UPDATE "idem_records"
SET forget_at = ?4
WHERE key IN (SELECT ?1 || '~' || number FROM kept)
    AND forget_at < ?4 AND forget_at > ?5
    AND (state = 'completed' OR reason IN ('gave_up', 'quarantined'))
