RELEASE SAVEPOINT {savepoint}; RESET ROLE;{mark} SELECT '{nonce}' AS nonce; SAVEPOINT {savepoint}
