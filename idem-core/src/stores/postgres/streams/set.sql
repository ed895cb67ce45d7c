-- Sets the mark of the stream $2 to $3. Whoever has the stream is fenced.
INSERT INTO idem_records_streams AS stream (key, token, owner, lease_ends, mark)
SELECT $2, (extract(epoch FROM now) * 1000000)::bigint, '', now, $3
FROM (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
    FROM set_config('lock_timeout', '{lock_timeout}', true)
) AS clock
ON CONFLICT (key) DO UPDATE SET
    token = greatest(stream.token + 1, excluded.token),
    owner = '',
    lease_ends = excluded.lease_ends,
    mark = excluded.mark
