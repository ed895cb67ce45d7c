-- Waits until the transaction that has written the mark is over. If it was rolled back, this one takes the mark's
-- place, under another token, and stays: so the answer is the same when it is asked for again.
INSERT INTO idem_records_open (key, token, lease_ends)
SELECT $1, 1, clock_timestamp() + interval '1 hour'
FROM set_config('lock_timeout', '100ms', true)
ON CONFLICT (key) DO NOTHING
