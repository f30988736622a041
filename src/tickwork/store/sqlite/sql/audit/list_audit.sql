-- The changes in a tenant, newest first, before a given record.
SELECT /*audit*/ FROM tickwork_audit AS a
WHERE a.tenant = ?1 AND a.id < ?2
ORDER BY a.id DESC LIMIT ?3
