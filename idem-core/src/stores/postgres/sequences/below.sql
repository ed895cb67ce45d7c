-- What is known of the numbers $2 of the sequences $1: a row each, and which of them it is.
SELECT
    asked.at,
    exception.is_there IS NOT NULL AS is_exception,
    clock_timestamp() + $3 * interval '1 microsecond' AS now,
    record.*
FROM unnest((SELECT $1::text[]), (SELECT $2::bigint[])) WITH ORDINALITY
    AS asked (sequence, number, at)
CROSS JOIN LATERAL (SELECT asked.sequence || '~' || asked.number AS key) AS input
LEFT JOIN LATERAL (
    SELECT true AS is_there
    FROM idem_records_exceptions AS listed
    WHERE listed.sequence = asked.sequence AND listed.number = asked.number
    LIMIT 1
) AS exception ON true
LEFT JOIN LATERAL ({record}) AS record ON true
