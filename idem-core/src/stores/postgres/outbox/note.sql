-- $1 skew, $2 ids, $3 errors, $4 when it is due again, in microseconds from now, or NULL, $5 how often it had been taken,
-- $6 how often it counts as tried from now on. Nothing of what somebody else has taken since.
UPDATE idem_records_outbox AS message
SET error = noted.error,
    attempts = noted.tried,
    due = clock.now + coalesce(noted.again, 0) * interval '1 microsecond',
    dead_since = CASE WHEN noted.again IS NULL THEN clock.now END
FROM unnest($2::text[]::uuid[], $3::text[], $4::bigint[], $5::integer[], $6::integer[])
        AS noted (id, error, again, taken, tried),
    (SELECT clock_timestamp() + $1 * interval '1 microsecond' AS now) AS clock
WHERE message.id = noted.id AND message.attempts = noted.taken
