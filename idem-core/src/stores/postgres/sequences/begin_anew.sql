-- Begins the sequence $1 in the place of one that has expired, whose row is locked.
WITH removed AS (
    DELETE FROM idem_records_exceptions WHERE sequence = $1
)
UPDATE idem_records_sequences SET
    joined = $2,
    mark = $2,
    "window" = $3,
    ahead_since = epoch,
    ahead_at = epoch,
    look_by = epoch + $4 * interval '1 microsecond',
    expires_at = epoch + $5 * interval '1 microsecond'
FROM (SELECT timestamptz '2000-01-01 00:00:00+00') AS clock (epoch)
WHERE key = $1
