-- The completion and the commit in one message: the server carries out neither or both, also if
-- nobody is there any more. An error in the one keeps the other from being reached. The values are
-- numbers and hexadecimal digits, which mean the same under every setting of the handler's, and in
-- quotes they are of the function's types without a cast. The nonce proves whose answer comes back.
-- `transaction_end.rs` counts the statements from the one with the nonce on (`COMMITTED`): put none between it and COMMIT. `sql.rs`
-- appends reset.sql.
RESET ROLE;
{sent}{moved}SELECT idem_records_complete_one('{key}', '{token}', '{outcome}', '{retention}', '{skew}'), '{nonce}' AS nonce;
COMMIT AND CHAIN;
