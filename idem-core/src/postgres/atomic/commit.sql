-- The completion and the commit in one message: the server carries out neither or both, also if
-- nobody is there any more. An error in the one keeps the other from being reached. The values are
-- numbers and hexadecimal digits, which mean the same under every setting of the handler's.
RESET ROLE;
WITH completed AS (
    UPDATE idem_records AS record SET
        state = 'completed',
        outcome = decode('{outcome}', 'hex'),
        lease_ends = NULL,
        retention = {retention},
        updated_at = clock.now,
        forget_at = forget.at,
        -- Left as it is where it still does: an index hangs on it.
        purge_after = CASE
            WHEN record.purge_after BETWEEN forget.at - interval '1 hour' AND forget.at
            THEN record.purge_after
            ELSE forget.at
        END
    FROM
        (SELECT clock_timestamp() + {skew} * interval '1 microsecond') AS clock (now),
        LATERAL (SELECT clock.now + {retention} * interval '1 microsecond') AS forget (at)
    WHERE record.key = convert_from(decode('{key}', 'hex'), 'UTF8')
        AND record.token = {token}
        AND record.state = 'in_progress'
        AND current_setting('idem.transaction', true) = 'open'
    RETURNING record.token
)
-- What is no boolean is an error that says why.
SELECT CASE
    WHEN count(*) = 1 THEN 'true'
    WHEN current_setting('idem.transaction', true) = 'open'
        THEN 'idem: the lease is no longer the current one'
    ELSE 'idem: the handler has ended its transaction'
END::boolean
FROM completed;
COMMIT AND CHAIN;
