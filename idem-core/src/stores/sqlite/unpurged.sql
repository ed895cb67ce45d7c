SELECT ?1 - forget_at FROM "idem_records" WHERE forget_at <= ?1 - ?2 ORDER BY forget_at LIMIT 1
