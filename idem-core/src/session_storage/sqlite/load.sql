SELECT taken, session FROM idem_kept_sessions WHERE name = ?1
