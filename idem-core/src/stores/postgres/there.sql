SELECT to_regclass('idem_records_meta') IS NOT NULL
