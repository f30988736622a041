-- Stores a session.
INSERT INTO tickwork_sessions (id, key_id, secret_hash, expires_at, tenant) VALUES (?1, ?2, ?3, ?4, ?5)
