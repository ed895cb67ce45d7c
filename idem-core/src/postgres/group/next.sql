RELEASE SAVEPOINT {savepoint}; RESET ROLE; SELECT '{nonce}' AS nonce; SAVEPOINT {savepoint}
