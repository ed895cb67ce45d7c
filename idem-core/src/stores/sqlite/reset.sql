-- Fails if a transaction is open that sqlx knows nothing of.
BEGIN;
ROLLBACK;
-- What a handler may have switched.
PRAGMA foreign_keys = ON;
PRAGMA query_only = OFF;
-- The store syncs by itself, once for all who wait: see `log_sync`.
PRAGMA synchronous = NORMAL;
