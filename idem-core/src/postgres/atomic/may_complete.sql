-- What is no boolean is an error that says why.
SELECT CASE
    WHEN has_function_privilege(
        'idem_records_complete(text, bigint, bytea, bigint, bigint)', 'EXECUTE'
    ) THEN 'true'
    ELSE 'this role may not execute the function that completes'
END::boolean
