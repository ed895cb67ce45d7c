SELECT mark, "window", life, ends_at FROM "idem_records_sessions" WHERE key = ?1
