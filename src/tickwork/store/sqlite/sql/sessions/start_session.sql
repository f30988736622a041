-- Stores a session, and returns when it ends.
INSERT INTO tickwork_sessions (id, key_id, secret_hash, expires_at, tenant)
VALUES (?2, ?3, ?4, ?1 + CAST(round(?5 * 1000000) AS INTEGER), ?6)
RETURNING expires_at
