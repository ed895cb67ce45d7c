SELECT token, owner, lease_ends, mark FROM "idem_records_streams" WHERE key = ?1
