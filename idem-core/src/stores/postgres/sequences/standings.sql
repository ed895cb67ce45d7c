-- How the numbers of sequence $1 from $2 on, before $3, stand that have records.
SELECT number, record.state, record.reason, record.forget_at,
    coalesce(substring(record.outcome FROM 1 FOR 1) = '!', false) AS refused
FROM generate_series($2::bigint, $3::bigint - 1) AS number
CROSS JOIN LATERAL (SELECT $1 || '~' || number AS key) AS input
CROSS JOIN LATERAL ({record}) AS record
