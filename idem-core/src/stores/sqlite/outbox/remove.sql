DELETE FROM "idem_records_outbox" WHERE id IN (SELECT value FROM json_each(?1))
