BEGIN ISOLATION LEVEL READ COMMITTED;
-- A row that somebody keeps locked is told of, and not waited for until the connection is given up.
SET LOCAL lock_timeout = {lock_timeout}
