UPDATE "idem_records"
SET state = 'completed',
    outcome = ?3,
    lease_ends = NULL,
    retention = ?4,
    updated_at = ?5,
    forget_at = ?6
WHERE key = ?1 AND token = ?2 AND state = 'in_progress'
