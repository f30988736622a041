-- Stores a session, and returns when it ends.
INSERT INTO tickwork_sessions (id, key_id, secret_hash, expires_at, tenant)
VALUES ($2, $3, $4, coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $5), $6)
RETURNING expires_at
