INSERT OR REPLACE INTO "idem_records_streams" (key, token, owner, lease_ends, mark)
VALUES (?1, ?2, ?3, ?4, ?5)
