-- One tenant, locked so that it does not change before its settings are replaced.
SELECT /*tenant*/ FROM tickwork_tenants AS t WHERE t.id = $1 FOR NO KEY UPDATE
