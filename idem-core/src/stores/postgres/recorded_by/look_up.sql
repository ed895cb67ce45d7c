-- Whether the entity is there, as this statement's snapshot sees it: committed. Then no record of an
-- attempt at it is needed any more.
WITH entity AS MATERIALIZED (SELECT {found} AS found),
removed AS (
    DELETE FROM idem_records
    USING entity
    WHERE entity.found AND key = $1::text AND token = $2::bigint AND state = 'in_progress'
)
SELECT found FROM entity
