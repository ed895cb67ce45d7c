SELECT
    key, mark,
    greatest(0, extract(epoch FROM lease_ends - clock_timestamp()) * 1000000 - $1)::bigint AS remaining
FROM idem_records_streams
ORDER BY key
