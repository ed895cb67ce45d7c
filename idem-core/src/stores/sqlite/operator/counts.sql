SELECT
    substr(key, 1, instr(key || ':', ':') - 1) AS scope,
    sum(state = 'in_progress') AS in_progress,
    sum(state = 'in_progress' AND lease_ends <= ?1) AS overdue,
    sum(state = 'completed') AS completed,
    sum(state = 'failed') AS failed,
    sum(state = 'failed' AND reason = 'quarantined') AS quarantined,
    sum(forget_at <= ?1) AS forgotten
FROM "idem_records"
GROUP BY scope
ORDER BY scope
