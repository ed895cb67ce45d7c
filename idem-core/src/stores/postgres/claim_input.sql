-- The claims of a batch, and the time: $1 skew; $2 to $6 key, owner, fingerprint, lease, retention; $7 whether the
-- commit may be lost. claim.sql has $8 and $9, too: the keys that are replayed, and those of which
-- no lease is taken over.
WITH clock AS MATERIALIZED (
    SELECT
        clock_timestamp() + $1 * interval '1 microsecond' AS now,
        -- For this statement's commit only: the completions of all of its claims will flush it.
        CASE WHEN $7::boolean THEN set_config('synchronous_commit', 'off', true) END
    -- A row that somebody keeps locked must not keep the others of the batch waiting for long.
    FROM set_config('lock_timeout', '{lock_timeout}', true)
),
input AS (
    SELECT claim.*, clock.now AS updated_at
    -- Behind sub-selects, so that the plan does not depend on how many there are, and is kept.
    FROM clock, unnest(
        (SELECT $2::text[]), (SELECT $3::bytea[]), (SELECT $4::bytea[]), (SELECT $5::bigint[]),
        (SELECT $6::bigint[])
    ) AS claim (key, owner, fingerprint, lease, retention)
)
