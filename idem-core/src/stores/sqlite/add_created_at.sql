ALTER TABLE "idem_records" ADD COLUMN created_at INTEGER
