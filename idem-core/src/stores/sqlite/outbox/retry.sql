UPDATE "idem_records_outbox" SET dead_since = NULL, due = ?1
WHERE dead_since IS NOT NULL AND (?2 IS NULL OR id = ?2)
