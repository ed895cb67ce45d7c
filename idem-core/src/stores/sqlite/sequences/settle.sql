-- At most ?2 sequences that have expired, before their exceptions are removed: whatever the clock does
-- next, nobody takes what is lost of them for done.
UPDATE "idem_records_sequences"
SET joined = mark
WHERE key IN (
    SELECT key FROM "idem_records_sequences"
    WHERE expires_at <= ?1 AND joined < mark
    LIMIT ?2
)
