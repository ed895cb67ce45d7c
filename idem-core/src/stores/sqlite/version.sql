SELECT value FROM "idem_records_meta" WHERE name = 'version'
