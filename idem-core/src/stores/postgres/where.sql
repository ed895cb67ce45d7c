-- The schema of the table, or the one that it would be created in.
SELECT coalesce(
    (
        SELECT nspname::text
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = to_regclass(quote_ident($1))
    ),
    current_schema()::text
)
