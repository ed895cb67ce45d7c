-- Whoever takes it last has it.
INSERT INTO idem_kept_sessions (name, taken) VALUES (?1, 1)
ON CONFLICT (name) DO UPDATE SET taken = taken + 1
RETURNING taken
