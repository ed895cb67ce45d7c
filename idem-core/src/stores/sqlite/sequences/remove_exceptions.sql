DELETE FROM "idem_records_exceptions" WHERE sequence = ?1
