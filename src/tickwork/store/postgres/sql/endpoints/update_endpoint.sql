-- Replaces the settings of an endpoint.
UPDATE tickwork_endpoints AS e
SET settings = $4, updated_at = coalesce($1::timestamptz, clock_timestamp())
WHERE e.id = $2 AND ($3::text IS NULL OR e.tenant = $3)
RETURNING /*endpoint*/
