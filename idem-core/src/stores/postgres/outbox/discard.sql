DELETE FROM idem_records_outbox WHERE id = $1::text::uuid RETURNING 1
