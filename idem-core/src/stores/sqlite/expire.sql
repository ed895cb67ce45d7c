DELETE FROM "idem_records_sessions"
WHERE key IN (
    SELECT key
    FROM "idem_records_sessions"
    WHERE remove_at <= ?1
    ORDER BY remove_at
    LIMIT ?2
)
RETURNING key, mark, "window", life, ends_at
