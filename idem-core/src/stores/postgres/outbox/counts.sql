SELECT
    count(*) FILTER (WHERE dead_since IS NULL AND NOT (later IS NOT NULL AND due > now AND attempts = 0)),
    count(*) FILTER (WHERE dead_since IS NULL AND later IS NOT NULL AND due > now AND attempts = 0),
    count(*) FILTER (WHERE dead_since IS NOT NULL),
    coalesce(
        greatest(0, extract(epoch FROM now - min(coalesce(later, created_at)) FILTER (WHERE dead_since IS NULL)) * 1000000),
        0
    )::bigint
FROM idem_records_outbox, (SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now) AS clock
GROUP BY now
