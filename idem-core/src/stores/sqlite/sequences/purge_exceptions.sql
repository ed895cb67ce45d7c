-- At most ?2 exceptions of sequences that have expired and are settled.
DELETE FROM "idem_records_exceptions"
WHERE (sequence, number) IN (
    SELECT exception.sequence, exception.number
    FROM "idem_records_sequences" AS expired
    CROSS JOIN "idem_records_exceptions" AS exception ON exception.sequence = expired.key
    WHERE expired.expires_at <= ?1 AND expired.joined = expired.mark
    LIMIT ?2
)
