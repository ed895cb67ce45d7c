-- What is known of the unique index that enforces a constraint, as the search_path finds it.
SELECT
    namespace.nspname::text AS schema,
    owner.relname::text AS "table",
    index.indisunique AS is_unique,
    index.indisvalid AND index.indisready AS is_ready,
    index.indpred IS NOT NULL AS is_partial,
    index.indexprs IS NOT NULL AS has_expressions,
    owner.relkind = 'p' OR owner.relispartition AS is_partitioned,
    keys.columns,
    keys.types,
    keys.operators,
    -- In milliseconds; 0 is for ever.
    (SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout') AS lock_timeout
FROM pg_index AS index
JOIN pg_class AS owner ON owner.oid = index.indrelid
JOIN pg_namespace AS namespace ON namespace.oid = owner.relnamespace
CROSS JOIN LATERAL (
    SELECT
        array_agg(attname::text ORDER BY place) AS columns,
        -- The types that the index compares, and their own equality, whatever the search_path is
        -- then. A cast to them cuts nothing off, as one to the column's type may.
        array_agg(
            quote_ident(type_namespace.nspname) || '.' || quote_ident(type.typname) ORDER BY place
        ) AS types,
        array_agg(
            quote_ident(operator_namespace.nspname) || '.' || operator.oprname ORDER BY place
        ) AS operators
    FROM unnest(index.indkey::int2[], index.indclass::oid[])
        WITH ORDINALITY AS key (number, class, place)
    JOIN pg_attribute ON attrelid = index.indrelid AND attnum = key.number
    JOIN pg_opclass AS class ON class.oid = key.class
    JOIN pg_type AS compared ON compared.oid = class.opcintype
    JOIN pg_type AS type
        -- Of arrays, enums and ranges the index compares any: it is the column's, or its domain's.
        ON type.oid = CASE WHEN compared.typtype = 'p' THEN (
            WITH RECURSIVE base AS (
                SELECT oid, typtype, typbasetype FROM pg_type WHERE oid = atttypid
                UNION ALL
                SELECT further.oid, further.typtype, further.typbasetype
                FROM pg_type AS further
                JOIN base ON base.typtype = 'd' AND further.oid = base.typbasetype
            )
            SELECT oid FROM base WHERE typtype <> 'd'
        ) ELSE compared.oid END
    JOIN pg_namespace AS type_namespace ON type_namespace.oid = type.typnamespace
    JOIN pg_amop AS amop
        ON amopfamily = class.opcfamily AND amopstrategy = 3 AND amoppurpose = 's'
        AND amoplefttype = class.opcintype AND amoprighttype = class.opcintype
    JOIN pg_operator AS operator ON operator.oid = amop.amopopr
    JOIN pg_namespace AS operator_namespace ON operator_namespace.oid = operator.oprnamespace
    WHERE key.place <= index.indnkeyatts
) AS keys
WHERE index.indexrelid = to_regclass(quote_ident($1))
