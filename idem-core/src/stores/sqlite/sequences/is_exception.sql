SELECT EXISTS (SELECT * FROM "idem_records_exceptions" WHERE sequence = ?1 AND number = ?2)
