-- Revokes a key; a revoked one keeps its time.
UPDATE tickwork_api_keys AS k
SET revoked_at = coalesce(k.revoked_at, $1, clock_timestamp())
WHERE k.id = $2 AND ($3::text IS NULL OR k.tenant = $3)
RETURNING /*api_key*/
