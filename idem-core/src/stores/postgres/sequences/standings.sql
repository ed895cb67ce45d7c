-- How the numbers of sequence $1 from $2 on, before $3, stand that have records.
SELECT number, record.token, record.attempts, record.in_doubt, record.owner, record.fingerprint,
    record.retention, record.forget_at, record.state, record.reason, record.lease_ends, record.not_before,
    substring(record.outcome FROM 1 FOR 1) AS outcome
FROM generate_series($2::bigint, $3::bigint - 1) AS number
CROSS JOIN LATERAL (SELECT $1 || '~' || number AS key) AS input
CROSS JOIN LATERAL ({record}) AS record
