CREATE TABLE IF NOT EXISTS idem_kept_sessions (
    name    TEXT PRIMARY KEY,
    taken   INTEGER NOT NULL,
    session TEXT
) WITHOUT ROWID;
