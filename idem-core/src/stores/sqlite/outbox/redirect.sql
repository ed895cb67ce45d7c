UPDATE "idem_records_outbox" SET target = ?3, head = ?4, dead_since = NULL, due = ?1 WHERE id = ?2
