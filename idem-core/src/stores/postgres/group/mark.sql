-- Others see it if a handler commits the transaction by itself; idem's own commit takes it away.
INSERT INTO idem_records_open (key, token, lease_ends)
VALUES ('{mark}', 0, clock_timestamp() + interval '1 hour');
