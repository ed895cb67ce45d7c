-- The records of these numbers of sequence ?1.
DELETE FROM "idem_records"
WHERE key IN (SELECT ?1 || '~' || value FROM json_each(?2))
RETURNING token
