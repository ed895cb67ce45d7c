-- The number tells whether what the first one has written is committed, should a later one commit by itself.
RELEASE SAVEPOINT {savepoint}; RESET ROLE; SELECT pg_current_xact_id()::text AS number, '{nonce}' AS nonce; SAVEPOINT {savepoint}
