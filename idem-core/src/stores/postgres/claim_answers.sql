-- A row per claim, of `input`: what is written now, if this claim wrote it; else the record as the
-- statement's snapshot saw it, if it saw one.
SELECT
    key, updated_at AS now, true AS written,
    token, attempts, in_doubt, owner, fingerprint, retention, forget_at,
    state, reason, lease_ends, not_before, outcome
FROM written
UNION ALL
SELECT
    input.key, input.updated_at AS now, false AS written,
    token, attempts, in_doubt, record.owner, record.fingerprint, record.retention, forget_at,
    state, reason, lease_ends, not_before, outcome
FROM input
CROSS JOIN LATERAL ({record}) AS record
WHERE input.key NOT IN (SELECT key FROM written)
