-- Of a transaction that is over: whether a handler has committed it; and whether idem's own commit was carried out,
-- which completes all members or none. One record does not tell: after a fail-over that has lost writes tokens are
-- given out again, and another worker may have completed that one key.
SELECT
    open.token = 0 AS by_handler,
    cardinality($2::text[]) = (
        SELECT count(*)
        FROM unnest($2::text[], $3::bigint[], $4::bytea[]) AS member (key, token, outcome)
        -- In a form that finds each record by its key whatever the planner thinks.
        CROSS JOIN LATERAL (
            SELECT state, token, outcome FROM idem_records WHERE key = member.key LIMIT 1
        ) AS record
        WHERE record.state = 'completed'
            AND record.token = member.token
            AND record.outcome = member.outcome
    ) AS by_idem
FROM idem_records_open AS open
WHERE open.key = $1
