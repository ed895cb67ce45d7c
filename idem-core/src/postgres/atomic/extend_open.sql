-- Beside the record and not in it: see idem_records_open in the schema.
INSERT INTO idem_records_open AS open (key, token, lease_ends)
SELECT key, token, clock_timestamp() + ($1 + $4) * interval '1 microsecond'
FROM idem_records
WHERE key = $2 AND token = $3 AND state = 'in_progress'
ON CONFLICT (key) DO UPDATE SET token = excluded.token, lease_ends = excluded.lease_ends
WHERE open.token <= excluded.token
RETURNING token
