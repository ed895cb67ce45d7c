SELECT
    count(*) FILTER (WHERE dead_since IS NULL AND NOT (later AND due > ?1 AND attempts = 0)),
    count(*) FILTER (WHERE dead_since IS NULL AND later AND due > ?1 AND attempts = 0),
    count(*) FILTER (WHERE dead_since IS NOT NULL),
    coalesce(max(0, ?1 - min(due) FILTER (WHERE dead_since IS NULL)), 0)
FROM "idem_records_outbox"
