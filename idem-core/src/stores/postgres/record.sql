-- The record of input.key as the snapshot sees it, held for as long as its open transaction is.
-- A leased claim has no row in `idem_records_open`: see schema.sql.
SELECT
    record.key, token, attempts, in_doubt, owner, fingerprint, record.retention,
    greatest(
        forget_at,
        open.lease_ends + record.retention * interval '1 microsecond'
    ) AS forget_at,
    state, reason,
    greatest(record.lease_ends, open.lease_ends) AS lease_ends,
    not_before, outcome
FROM idem_records AS record
LEFT JOIN LATERAL (
    SELECT open.lease_ends
    FROM idem_records_open AS open
    WHERE record.state = 'in_progress' AND open.key = record.key AND open.token = record.token
    LIMIT 1
) AS open ON true
WHERE record.key = input.key
LIMIT 1
