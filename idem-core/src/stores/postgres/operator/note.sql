INSERT INTO idem_records_audit (key, at, action, by_whom, state_before, token_before, owner)
VALUES ($2, clock_timestamp() + $1 * interval '1 microsecond', $3, $4, $5, $6, $7)
