-- A batch of claims of keys that are most likely new, no key twice: half the work of claim.sql. A row per
-- claim: what is recorded now, if the key was new; else the record that the snapshot saw, which may still be one to
-- acquire. No row if it saw none: that claim is asked again.
{claim_input},
written AS (
    INSERT INTO idem_records AS record (
        key, state, attempts, in_doubt, token, lease_ends, retention, updated_at, forget_at,
        purge_after, owner, fingerprint, created_at
    )
    SELECT
        key, 'in_progress', 1, false, nextval('idem_records_token'),
        updated_at + lease * interval '1 microsecond',
        retention,
        updated_at,
        updated_at + lease * interval '1 microsecond' + retention * interval '1 microsecond',
        updated_at + retention * interval '1 microsecond',
        owner, fingerprint, updated_at
    FROM input
    -- Keys that are recorded are left out here: ON CONFLICT would wait for a transaction that writes the row.
    LEFT JOIN LATERAL (
        SELECT key AS known FROM idem_records WHERE key = input.key LIMIT 1
    ) AS record ON true
    WHERE record.known IS NULL
    ORDER BY key COLLATE "C"
    ON CONFLICT (key) DO NOTHING
    RETURNING *
)
{claim_answers}
