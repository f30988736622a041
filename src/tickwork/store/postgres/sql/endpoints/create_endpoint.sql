-- Stores a new endpoint, unless its id or name is in use.
INSERT INTO tickwork_endpoints (id, tenant, name, settings, created_at, updated_at)
SELECT $2, $3, $4, $5, moment.now, moment.now
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
ON CONFLICT DO NOTHING
