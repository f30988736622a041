-- Stores a key unless its id is in use, and returns it.
INSERT INTO tickwork_api_keys (id, tenant, name, scopes, owner, created_at, expires_at, secret_hash)
VALUES (?2, ?3, ?4, ?5, ?6, ?1, ?7, ?8)
ON CONFLICT (id) DO NOTHING
RETURNING /*returned_api_key*/
