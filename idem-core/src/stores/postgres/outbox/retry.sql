UPDATE idem_records_outbox
SET dead_since = NULL, due = clock_timestamp() + $1 * interval '1 microsecond'
WHERE dead_since IS NOT NULL AND ($2::text IS NULL OR id = $2::uuid)
RETURNING 1
