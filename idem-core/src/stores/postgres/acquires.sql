-- Whether the claim `excluded` acquires the key of `record`; $8 are the keys that are replayed, $9
-- those of which no lease is taken over. An open transaction keeps a lease (idem_records_open), which record.sql has in lease_ends.
CASE
    WHEN {forgotten} THEN true
    WHEN record.state = 'in_progress' THEN
        record.owner = excluded.owner
        OR record.lease_ends <= excluded.updated_at
        AND excluded.key <> ALL ($9)
        AND NOT EXISTS (
            SELECT FROM idem_records_open AS open
            WHERE open.key = record.key
                AND open.token = record.token
                AND open.lease_ends > excluded.updated_at
        )
    WHEN record.state <> 'failed' OR record.owner = excluded.owner THEN false
    WHEN excluded.key = ANY ($8) THEN
        record.reason = 'quarantined' OR (record.fingerprint <> excluded.fingerprint) IS NOT true
    ELSE
        record.reason <> 'quarantined'
        AND (record.fingerprint <> excluded.fingerprint) IS NOT true
        AND (record.not_before > excluded.updated_at) IS NOT true
END
