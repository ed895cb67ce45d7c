DELETE FROM idem_records WHERE key = $1
