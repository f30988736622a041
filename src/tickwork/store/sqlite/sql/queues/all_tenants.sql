-- All tenants.
SELECT id FROM tickwork_tenants
