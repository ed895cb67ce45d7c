; -- Each member sees what was committed before its own statements, as it would in a transaction of its own.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SAVEPOINT {savepoint}
