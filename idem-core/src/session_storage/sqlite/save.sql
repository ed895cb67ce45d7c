UPDATE idem_kept_sessions SET session = ?3 WHERE name = ?1 AND taken = ?2
