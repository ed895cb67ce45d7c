SELECT key, token, attempts, in_doubt, owner, fingerprint, retention, forget_at, created_at,
       updated_at,
       state, reason, error, lease_ends, not_before, outcome, length(outcome) AS outcome_bytes
FROM "idem_records"
WHERE key = ?1
