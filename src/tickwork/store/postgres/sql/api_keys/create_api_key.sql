-- Stores a key unless its id is in use, and returns it.
INSERT INTO tickwork_api_keys AS k (id, tenant, name, scopes, owner, created_at, expires_at, secret_hash)
VALUES ($2, $3, $4, $5, $6, coalesce($1, clock_timestamp()), $7, $8)
ON CONFLICT (id) DO NOTHING
RETURNING /*api_key*/
