-- At most ?2 sequences that have expired and have no exceptions left.
DELETE FROM "idem_records_sequences"
WHERE key IN (
    SELECT expired.key
    FROM "idem_records_sequences" AS expired
    WHERE expired.expires_at <= ?1
        AND NOT EXISTS (
            SELECT * FROM "idem_records_exceptions" AS exception
            WHERE exception.sequence = expired.key
        )
    LIMIT ?2
)
