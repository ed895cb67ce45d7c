UPDATE idem_records_outbox
SET target = $3, head = $4, dead_since = NULL, due = clock_timestamp() + $1 * interval '1 microsecond'
WHERE id = $2::text::uuid
RETURNING 1
