-- Extends the lease of the stream $2 under the token $3 by $5 microseconds, and moves its mark up to $4: a row if it does.
UPDATE idem_records_streams SET
    mark = greatest(mark, $4),
    lease_ends = clock_timestamp() + ($1 + $5) * interval '1 microsecond'
FROM set_config('lock_timeout', '{lock_timeout}', true)
WHERE key = $2 AND token = $3
RETURNING true
