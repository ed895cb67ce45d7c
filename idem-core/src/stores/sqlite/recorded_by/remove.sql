DELETE FROM "idem_records"
WHERE key = ?1 AND token = ?2 AND state = 'in_progress'
