SELECT joined, mark, "window", ahead_since, ahead_at, look_by, expires_at
FROM "idem_records_sequences"
WHERE key = ?1
