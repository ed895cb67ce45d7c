SELECT
    count(*) FILTER (WHERE dead_since IS NULL AND NOT (later IS NOT NULL AND due > ?1 AND attempts = 0)),
    count(*) FILTER (WHERE dead_since IS NULL AND later IS NOT NULL AND due > ?1 AND attempts = 0),
    count(*) FILTER (WHERE dead_since IS NOT NULL),
    coalesce(max(0, ?1 - min(coalesce(later, created_at)) FILTER (WHERE dead_since IS NULL)), 0)
FROM "idem_records_outbox"
