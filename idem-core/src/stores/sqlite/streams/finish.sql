-- Fails if the handler has ended the transaction by itself.
RELEASE idem_handler;
{moved}{sent}-- Temporary tables that a handler has left: the connection is only lent again without any.
SELECT count(*) FROM pragma_database_list WHERE name <> 'main';
COMMIT;
-- For the next handler. It takes no lock, and reads nothing yet.
BEGIN DEFERRED;
SAVEPOINT idem_handler
