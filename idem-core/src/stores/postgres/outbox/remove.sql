DELETE FROM idem_records_outbox WHERE id = ANY ($1::text[]::uuid[])
