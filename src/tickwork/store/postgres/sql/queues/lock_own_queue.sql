-- Locks a queue of exactly this owner, so that it does not change before its settings are replaced.
SELECT id, tenant, name, settings, paused FROM tickwork_queues
WHERE tenant IS NOT DISTINCT FROM $1 AND name = $2
FOR NO KEY UPDATE
