-- The endpoints of a tenant with their settings, which say what they receive; and the time.
SELECT id, settings, coalesce($1::timestamptz, clock_timestamp()) AS now
FROM tickwork_endpoints
WHERE tenant = $2
