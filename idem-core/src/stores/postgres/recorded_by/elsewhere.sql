-- The schemas outside the search_path that have a unique index of this name.
SELECT coalesce(string_agg(quote_ident(nspname), ', ' ORDER BY nspname), '')
FROM pg_class
JOIN pg_index ON indexrelid = pg_class.oid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relname = $1 AND indisunique
