UPDATE "idem_records_meta" SET value = max(value, ?1) WHERE name = 'floor'
