-- Marks an endpoint as changed: one of its secrets was.
UPDATE tickwork_endpoints SET updated_at = coalesce($1::timestamptz, clock_timestamp())
WHERE id = $2 AND tenant = $3
