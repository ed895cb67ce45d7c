-- A standby, or a server that was made read-only for a while, answers reads as ever: its sessions are not to be lent.
-- A transaction that the handler has ended by itself is only missed here. There is one again at the end, because the
-- driver counts on it.
ROLLBACK;
BEGIN;
RESET default_transaction_read_only;
SELECT
    NOT (pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean) AS is_writable,
    '{nonce}' AS nonce
