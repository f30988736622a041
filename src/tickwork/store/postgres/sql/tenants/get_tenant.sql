-- One tenant.
SELECT /*tenant*/ FROM tickwork_tenants AS t WHERE t.id = $1
