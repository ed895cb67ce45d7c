INSERT OR REPLACE INTO "idem_records_sessions" (key, mark, "window", life, ends_at, remove_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
