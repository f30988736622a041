-- The endpoints of a tenant with their settings, which say what they receive.
SELECT id, settings FROM tickwork_endpoints WHERE tenant = ?1
