SELECT count(*) FROM "idem_records_audit" WHERE key = ?1 AND owner = ?2
