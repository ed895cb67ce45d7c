-- Begins the session $2, unless it is there: a row if it was not.
INSERT INTO idem_records_sessions (key, mark, "window", life, ends_at, remove_at)
SELECT
    $2, 0, $3, $4,
    now + $4 * interval '1 microsecond',
    now + $4 * interval '1 microsecond' + greatest($4, 60000000) * interval '1 microsecond'
FROM (SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now) AS clock
ON CONFLICT (key) DO NOTHING
RETURNING true
