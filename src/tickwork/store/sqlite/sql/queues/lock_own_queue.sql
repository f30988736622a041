-- A queue of exactly this owner. The transaction writes, so it does not change before its settings are replaced.
SELECT id, tenant, name, settings, paused FROM tickwork_queues
WHERE coalesce(tenant, '') = coalesce(?1, '') AND tenant IS ?1 AND name = ?2
