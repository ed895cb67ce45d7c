-- What a handler may leave behind on its connection, but for what it has prepared by `PREPARE`. In
-- a transaction of its own, and at the end there is one again, because the driver counts on it.
RESET SESSION AUTHORIZATION;
RESET ALL;{access}
CLOSE ALL;
UNLISTEN *;
DISCARD TEMP;
DISCARD SEQUENCES;
SELECT pg_advisory_unlock_all();
COMMIT AND CHAIN
