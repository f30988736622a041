-- One tenant. The transaction writes, so its settings do not change before they are replaced.
SELECT /*tenant*/ FROM tickwork_tenants AS t WHERE t.id = ?1
