-- The outcome stays where it is: it may be large.
SELECT key, token, attempts, in_doubt, owner, fingerprint, retention, forget_at, created_at,
       updated_at,
       state, reason, error, lease_ends, not_before,
       x'' AS outcome, length(outcome) AS outcome_bytes
FROM "idem_records"
WHERE key > ?1
    AND (?2 IS NULL OR state = ?2)
    AND updated_at <= ?3
    -- A range of the key's own order, in which everything begins so.
    AND key BETWEEN ?4 AND ?5
ORDER BY key
LIMIT ?6
