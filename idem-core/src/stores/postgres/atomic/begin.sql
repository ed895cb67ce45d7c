-- Where the session may only read by default, the transaction may write all the same.
-- Utility statements only, so that a handler may still choose its isolation level. The texts never
-- differ: those that do fill pg_stat_statements. The setting proves at the end that this is still
-- the same transaction: it is gone with it.
BEGIN{access};
SET LOCAL idem.transaction = 'open'
