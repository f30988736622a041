-- One session, also one that has expired.
SELECT key_id, secret_hash, expires_at FROM tickwork_sessions WHERE id = $1
