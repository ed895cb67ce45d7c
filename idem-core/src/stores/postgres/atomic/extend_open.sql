-- Beside the record and not in it: see idem_records_open in the schema. The clock is read under the
-- row's lock where there is a row, so that a statement carried out late shortens nothing.
INSERT INTO idem_records_open AS open (key, token, lease_ends)
SELECT key, token, clock_timestamp() + ($1 + $4) * interval '1 microsecond'
FROM idem_records
WHERE key = $2 AND token = $3 AND state = 'in_progress'
ON CONFLICT (key) DO UPDATE SET
    token = excluded.token,
    lease_ends = clock_timestamp() + ($1 + $4) * interval '1 microsecond'
WHERE open.token <= excluded.token
RETURNING token
