-- A standby, or a server that was made read-only for a while, answers reads as ever: its sessions are not to be lent.
RESET default_transaction_read_only;
SELECT NOT (pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean)
