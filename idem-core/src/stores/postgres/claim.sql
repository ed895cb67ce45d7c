-- A batch of claims, no key twice. A row per claim: what is recorded now, if this claim acquired
-- the key; else the record that the snapshot saw. No row if it saw none: that claim is asked again.
{claim_input},
-- Keys that their claim cannot acquire are left out: ON CONFLICT would lock their rows, and that is a write.
candidate AS (
    SELECT excluded.*
    -- Named as `ON CONFLICT` names it, so that acquires.sql means the same here and below.
    FROM input AS excluded
    LEFT JOIN LATERAL (
        SELECT * FROM idem_records WHERE key = excluded.key LIMIT 1
    ) AS record ON true
    WHERE record.key IS NULL OR {acquires}
),
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
    FROM candidate
    ORDER BY key COLLATE "C"
    ON CONFLICT (key) DO UPDATE SET (
        state, reason, error, outcome, not_before, owner, retention, updated_at,
        token, attempts, in_doubt, fingerprint, created_at, lease_ends, forget_at, purge_after
    ) = (
        SELECT
            'in_progress', NULL, NULL, NULL::bytea, NULL::timestamptz,
            excluded.owner, excluded.retention, excluded.updated_at,
            CASE how
                WHEN 'again' THEN record.token
                -- Evaluated under the row's lock.
                ELSE greatest(record.token + 1, nextval('idem_records_token'))
            END,
            CASE
                WHEN how = 'again' THEN record.attempts
                WHEN how IN ('anew', 'unquarantined') THEN 1
                WHEN excluded.key = ANY ($8) THEN 1
                ELSE least(record.attempts, 2147483646) + 1
            END,
            CASE how
                WHEN 'takeover' THEN true
                WHEN 'anew' THEN false
                WHEN 'unquarantined' THEN false
                ELSE record.in_doubt
            END,
            CASE how
                WHEN 'again' THEN record.fingerprint
                WHEN 'anew' THEN excluded.fingerprint
                WHEN 'unquarantined' THEN excluded.fingerprint
                ELSE coalesce(excluded.fingerprint, record.fingerprint)
            END,
            CASE how WHEN 'anew' THEN excluded.updated_at ELSE record.created_at END,
            lease.ends,
            forget.at,
            -- Kept if it is at most an hour too early: a change would have to update its index.
            CASE
                WHEN record.purge_after BETWEEN forget.at - interval '1 hour' AND forget.at
                THEN record.purge_after
                ELSE excluded.purge_after
            END
        FROM (
            SELECT CASE
                WHEN {forgotten} THEN 'anew'
                WHEN record.state = 'failed' AND record.reason = 'quarantined' THEN 'unquarantined'
                WHEN record.state = 'failed' THEN 'retry'
                WHEN record.owner = excluded.owner THEN 'again'
                ELSE 'takeover'
            END
            OFFSET 0
        ) AS claim (how),
        LATERAL (
            SELECT CASE how
                WHEN 'again' THEN greatest(record.lease_ends, excluded.lease_ends)
                ELSE excluded.lease_ends
            END
        ) AS lease (ends),
        LATERAL (
            SELECT lease.ends + excluded.retention * interval '1 microsecond'
        ) AS forget (at)
    )
    WHERE {acquires}
    RETURNING *
)
{claim_answers}
