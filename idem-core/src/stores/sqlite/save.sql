INSERT OR REPLACE INTO "idem_records" (
    key, state, reason, error, attempts, in_doubt, token, owner, fingerprint, outcome,
    lease_ends, not_before, retention, created_at, updated_at, forget_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
