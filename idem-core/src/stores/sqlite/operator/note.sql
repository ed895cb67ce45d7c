INSERT INTO "idem_records_audit" (key, at, action, by_whom, state_before, token_before, owner)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
