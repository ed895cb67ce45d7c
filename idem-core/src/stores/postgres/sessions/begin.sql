-- Each statement sees what was committed before it, whatever the server's default is: what is done
-- under the session's lock is decided from what the last who had it has left. A host that vanishes
-- keeps it for 25 s at most.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = {lock_timeout};
SET LOCAL idle_in_transaction_session_timeout = 25000;
SET LOCAL tcp_keepalives_idle = 10;
SET LOCAL tcp_keepalives_interval = 5;
SET LOCAL tcp_keepalives_count = 3;
SET LOCAL tcp_user_timeout = 25000
