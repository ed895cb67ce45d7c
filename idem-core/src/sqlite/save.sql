INSERT OR REPLACE INTO "idem_records" (
    key, state, reason, error, attempts, in_doubt, token, owner, fingerprint, outcome,
    lease_ends, not_before, retention, updated_at, forget_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
