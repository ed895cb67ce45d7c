SELECT key, token, attempts, in_doubt, owner, fingerprint, retention, forget_at, created_at,
       updated_at,
       state, reason, error, lease_ends, not_before, outcome
FROM "idem_records"
WHERE key IN (SELECT value FROM json_each(?1))
