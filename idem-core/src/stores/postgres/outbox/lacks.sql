-- What the role lacks of the rights that publishing needs.
SELECT string_agg(wanted || ' ON ' || object, ', ')
FROM (
    SELECT wanted, 'TABLE idem_records_outbox' AS object, has_table_privilege(to_regclass('idem_records_outbox'), wanted) AS has
    FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS wanted
    UNION ALL
    SELECT 'USAGE', 'SEQUENCE idem_records_outbox_number',
        has_sequence_privilege(to_regclass('idem_records_outbox_number'), 'USAGE, UPDATE')
    UNION ALL
    SELECT 'EXECUTE', 'FUNCTION idem_records_send', has_function_privilege(to_regproc('idem_records_send'), 'EXECUTE')
    UNION ALL
    SELECT 'EXECUTE', 'FUNCTION pg_advisory_xact_lock(bigint)',
        has_function_privilege('pg_advisory_xact_lock(bigint)', 'EXECUTE')
) AS rights
WHERE NOT has
