-- Begins the sequences $1, but for those that somebody else has begun: a row for each that begins.
INSERT INTO idem_records_sequences (
    key, joined, mark, "window", ahead_since, ahead_at, look_by, expires_at
)
SELECT
    key, joined, joined, "window", epoch, epoch,
    epoch + look_by * interval '1 microsecond',
    epoch + expires_at * interval '1 microsecond'
FROM (SELECT timestamptz '2000-01-01 00:00:00+00') AS clock (epoch),
unnest(
    (SELECT $1::text[]), (SELECT $2::bigint[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]),
    (SELECT $5::bigint[])
) AS begun (key, joined, "window", look_by, expires_at)
-- In one order, so that two who begin several do not wait for each other.
ORDER BY key COLLATE "C"
ON CONFLICT (key) DO NOTHING
RETURNING key
