INSERT OR REPLACE INTO "idem_records_sequences" (
    key, joined, mark, "window", ahead_since, ahead_at, look_by, expires_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
