-- Gives the stream $2 back that is held under the token $3, and moves its mark up to $4: a row if it does. The token
-- grows, so that a heartbeat that comes late does not bring the lease back.
UPDATE idem_records_streams SET
    mark = greatest(mark, $4),
    token = token + 1,
    owner = '',
    lease_ends = clock_timestamp() + $1 * interval '1 microsecond'
FROM set_config('lock_timeout', '{lock_timeout}', true)
WHERE key = $2 AND token = $3
RETURNING true
