SELECT
    count(*) FILTER (WHERE dead_since IS NULL AND NOT (later AND due > now AND attempts = 0)),
    count(*) FILTER (WHERE dead_since IS NULL AND later AND due > now AND attempts = 0),
    count(*) FILTER (WHERE dead_since IS NOT NULL),
    coalesce(greatest(0, extract(epoch FROM now - min(due) FILTER (WHERE dead_since IS NULL)) * 1000000), 0)::bigint
FROM idem_records_outbox, (SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now) AS clock
GROUP BY now
