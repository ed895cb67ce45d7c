-- One row per key. Times are microseconds since 1970; idem_records_readable shows them as text.
CREATE TABLE IF NOT EXISTS "idem_records" (
    key         TEXT    NOT NULL PRIMARY KEY,
    state       TEXT    NOT NULL,           -- in_progress, completed or failed
    reason      TEXT,                       -- of failed: failed, abandoned, gave_up or quarantined
    error       TEXT,                       -- of the last attempt that failed
    attempts    INTEGER NOT NULL,
    in_doubt    INTEGER NOT NULL,           -- 1: an attempt ended without a word
    token       INTEGER NOT NULL,           -- fencing token of the last claim
    owner       BLOB    NOT NULL,           -- of the last claim
    fingerprint BLOB,                       -- digest of the content
    outcome     BLOB,                       -- of completed
    lease_ends  INTEGER,                    -- of in_progress
    not_before  INTEGER,                    -- of failed: when the next attempt is due, if not at once
    retention   INTEGER NOT NULL,
    created_at  INTEGER,                    -- first claim; NULL if an earlier version has written it
    updated_at  INTEGER NOT NULL,           -- last write; of completed: when it was completed
    forget_at   INTEGER NOT NULL            -- retention after the last write, lease_ends or not_before
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS "idem_records_forget_at" ON "idem_records" (forget_at);

-- Sessions of clients that number their requests; the answers are records, SESSION~NUMBER.
CREATE TABLE IF NOT EXISTS "idem_records_sessions" (
    key       TEXT    NOT NULL PRIMARY KEY,
    mark      INTEGER NOT NULL,             -- the lowest number whose answer is kept
    "window"  INTEGER NOT NULL,             -- how many numbers from the mark on may be in use
    life      INTEGER NOT NULL,             -- how long without a sign of life
    ends_at   INTEGER NOT NULL,             -- unless there is one
    remove_at INTEGER NOT NULL              -- a life after that, or a minute
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS "idem_records_sessions_remove_at"
ON "idem_records_sessions" (remove_at);

-- Sequences of producers that number their messages; from the mark on these have records,
-- SEQUENCE~NUMBER.
CREATE TABLE IF NOT EXISTS "idem_records_sequences" (
    key         TEXT    NOT NULL PRIMARY KEY,
    joined      INTEGER NOT NULL,           -- of what came before nobody knows
    mark        INTEGER NOT NULL,           -- the lowest number that is not done
    "window"    INTEGER NOT NULL,           -- how many numbers from the mark on may be in use
    ahead_since INTEGER NOT NULL,           -- since when others wait for what is missing, or 0
    ahead_at    INTEGER NOT NULL,           -- when the last of them came
    look_by     INTEGER NOT NULL,           -- when the mark is to move, if it can
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS "idem_records_sequences_expires_at"
ON "idem_records_sequences" (expires_at);

-- What is below the mark of a sequence and not done: it was given up, or never came.
CREATE TABLE IF NOT EXISTS "idem_records_exceptions" (
    sequence TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    PRIMARY KEY (sequence, number)
) STRICT, WITHOUT ROWID;

-- How far each handler has come in each stream, and who reads it. Kept until somebody sets it.
CREATE TABLE IF NOT EXISTS "idem_records_streams" (
    key        TEXT    NOT NULL PRIMARY KEY,    -- scope and stream
    token      INTEGER NOT NULL,            -- fencing token of the last claim
    owner      BLOB    NOT NULL,            -- of the last claim
    lease_ends INTEGER NOT NULL,            -- until then nobody else reads
    mark       INTEGER                      -- the lowest offset that is not done
) STRICT, WITHOUT ROWID;

-- What operators changed by hand; purged after 90 days.
CREATE TABLE IF NOT EXISTS "idem_records_audit" (
    key          TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    action       TEXT    NOT NULL,          -- release, forget or complete
    by_whom      TEXT    NOT NULL,
    state_before TEXT,                      -- if there was a record
    token_before INTEGER,
    owner        BLOB    NOT NULL,          -- of the intervention, which may be repeated
    PRIMARY KEY (key, owner)
) STRICT, WITHOUT ROWID;

-- What handlers have published, until the broker has confirmed it.
CREATE TABLE IF NOT EXISTS "idem_records_outbox" (
    number     INTEGER NOT NULL PRIMARY KEY,    -- in the order of the commits
    id         TEXT    NOT NULL UNIQUE,
    message_id TEXT    NOT NULL,
    target     TEXT    NOT NULL,            -- where it goes, for people
    head       BLOB    NOT NULL,            -- how it is published
    body       BLOB    NOT NULL,
    lane       TEXT,                        -- those of one lane are published one after the other
    later      INTEGER,                     -- when it was to leave, if not at once; until then it can be cancelled
    due        INTEGER NOT NULL,            -- nobody takes it before
    attempts   INTEGER NOT NULL,            -- how often it was taken
    error      TEXT,                        -- of the last attempt that failed
    dead_since INTEGER,                     -- given up: nobody takes it
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS "idem_records_outbox_due" ON "idem_records_outbox" (due)
WHERE lane IS NULL AND dead_since IS NULL;
CREATE INDEX IF NOT EXISTS "idem_records_outbox_lane" ON "idem_records_outbox" (lane, number)
WHERE lane IS NOT NULL;
CREATE INDEX IF NOT EXISTS "idem_records_outbox_later" ON "idem_records_outbox" (message_id)
WHERE later IS NOT NULL;
CREATE INDEX IF NOT EXISTS "idem_records_outbox_dead" ON "idem_records_outbox" (dead_since)
WHERE dead_since IS NOT NULL;

CREATE TABLE IF NOT EXISTS "idem_records_meta" (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- version: of this schema. floor: the highest fencing token of a record that was purged.
INSERT OR IGNORE INTO "idem_records_meta" (name, value) VALUES ('version', 1), ('floor', 0);

DROP VIEW IF EXISTS "idem_records_readable";

CREATE VIEW "idem_records_readable" AS
SELECT
    key,
    state,
    reason,
    error,
    attempts,
    in_doubt,
    token,
    -- As JSON if it is JSON.
    iif(
        json_valid(CAST(outcome AS TEXT)), json(CAST(outcome AS TEXT)), CAST(outcome AS TEXT)
    ) AS outcome,
    strftime('%Y-%m-%d %H:%M:%f', created_at / 1e6, 'unixepoch') AS created_at,
    strftime(
        '%Y-%m-%d %H:%M:%f', iif(state = 'completed', updated_at, NULL) / 1e6, 'unixepoch'
    ) AS completed_at,
    strftime('%Y-%m-%d %H:%M:%f', lease_ends / 1e6, 'unixepoch') AS lease_ends,
    strftime('%Y-%m-%d %H:%M:%f', not_before / 1e6, 'unixepoch') AS not_before,
    strftime('%Y-%m-%d %H:%M:%f', updated_at / 1e6, 'unixepoch') AS updated_at,
    strftime('%Y-%m-%d %H:%M:%f', forget_at / 1e6, 'unixepoch') AS forget_at
FROM "idem_records";
