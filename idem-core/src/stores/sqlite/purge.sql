DELETE FROM "idem_records"
WHERE key IN (
    SELECT key
    FROM "idem_records"
    WHERE forget_at <= ?1
    ORDER BY forget_at
    LIMIT ?2
)
RETURNING token
