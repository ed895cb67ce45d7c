-- The mark of a stream and the commit in one message, as in commit.sql: the same holds here. The stream comes as
-- hexadecimal digits, and put no statement between the one with the nonce and COMMIT. `sql.rs` appends reset.sql.
RESET ROLE;
{sent}SELECT idem_records_move_mark('{stream}', '{token}', '{from}', '{to}'), '{nonce}' AS nonce;
COMMIT AND CHAIN;
