-- The number of endpoints of a tenant.
SELECT count(*) AS count FROM tickwork_endpoints WHERE tenant = ?1
