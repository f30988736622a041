-- Ends the sessions of a key, except for one.
DELETE FROM tickwork_sessions WHERE key_id = $1 AND id <> $2
