SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'idem_records_audit'
