-- Utility statements only, so that a handler may still choose its isolation level. The texts never
-- differ: those that do fill pg_stat_statements. The setting proves at the end that this is still
-- the same transaction: it is gone with it. The others free the locks of a host that has vanished,
-- after 25 s.
BEGIN;
SET LOCAL idem.transaction = 'open';
SET LOCAL tcp_keepalives_idle = 10;
SET LOCAL tcp_keepalives_interval = 5;
SET LOCAL tcp_keepalives_count = 3;
SET LOCAL tcp_user_timeout = 25000
