-- Claims the stream $2 for the owner $3, for $4 microseconds, unless another owner has it: then the row says how long.
WITH clock AS (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now
    FROM set_config('lock_timeout', '{lock_timeout}', true)
), claimed AS (
    INSERT INTO idem_records_streams AS stream (key, token, owner, lease_ends)
    SELECT
        $2,
        (extract(epoch FROM now) * 1000000)::bigint,
        $3,
        now + $4 * interval '1 microsecond'
    FROM clock
    ON CONFLICT (key) DO UPDATE SET
        token = CASE
            WHEN stream.lease_ends > excluded.lease_ends - $4 * interval '1 microsecond'
            THEN stream.token
            ELSE greatest(stream.token + 1, excluded.token)
        END,
        owner = excluded.owner,
        lease_ends = excluded.lease_ends
    -- The time of this claim, which the row to insert has brought along.
    WHERE stream.owner = excluded.owner
        OR stream.lease_ends <= excluded.lease_ends - $4 * interval '1 microsecond'
    RETURNING stream.token, stream.mark
)
SELECT token, mark, NULL::bigint AS remaining FROM claimed
UNION ALL
SELECT NULL, NULL, (extract(epoch FROM stream.lease_ends - clock.now) * 1000000)::bigint
FROM idem_records_streams AS stream, clock
WHERE stream.key = $2 AND NOT EXISTS (SELECT FROM claimed)
