-- $1 skew, $2 ids, $3 errors, $4 when it is due again, in microseconds from now, or NULL.
UPDATE idem_records_outbox AS message
SET error = noted.error,
    due = clock.now + coalesce(noted.again, 0) * interval '1 microsecond',
    dead_since = CASE WHEN noted.again IS NULL THEN clock.now END
FROM unnest($2::text[]::uuid[], $3::text[], $4::bigint[]) AS noted (id, error, again),
    (SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now) AS clock
WHERE message.id = noted.id
