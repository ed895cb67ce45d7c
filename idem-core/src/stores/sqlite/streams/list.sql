SELECT key, token, owner, lease_ends, mark FROM "idem_records_streams" ORDER BY key
