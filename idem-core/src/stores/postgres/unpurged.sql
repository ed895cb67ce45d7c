-- For how many microseconds the first record that is to be removed has been so: a row if that is $2 or more.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() + $1 * interval '1 microsecond' AS updated_at
)
SELECT (extract(epoch FROM excluded.updated_at - record.forget_at) * 1000000)::bigint
FROM clock AS excluded
JOIN idem_records AS record
    ON record.purge_after <= (SELECT updated_at - $2 * interval '1 microsecond' FROM clock)
WHERE record.forget_at <= excluded.updated_at - $2 * interval '1 microsecond' AND {forgotten}
ORDER BY record.purge_after
LIMIT 1
