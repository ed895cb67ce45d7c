DELETE FROM "idem_records_audit"
WHERE (key, owner) IN (
    SELECT key, owner FROM "idem_records_audit" WHERE at <= ?1 ORDER BY at LIMIT ?2
)
