-- The record, which nobody changes before the transaction has ended.
SELECT
    token, attempts, in_doubt, owner, fingerprint, retention, forget_at, created_at,
    updated_at, state, reason, error, lease_ends, not_before, outcome
FROM idem_records
WHERE key = $1
FOR UPDATE
