INSERT OR IGNORE INTO "idem_records_exceptions" (sequence, number)
SELECT ?1, value FROM json_each(?2)
