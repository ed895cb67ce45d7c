SELECT to_regclass('idem_records_audit') IS NOT NULL
