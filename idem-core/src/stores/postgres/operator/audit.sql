SELECT at, action, by_whom, state_before, token_before
FROM idem_records_audit
WHERE key = $1
ORDER BY at, owner
