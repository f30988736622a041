-- The schedule of a tenant that has a name now.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND name = ?2 AND name IS NOT NULL AND status <> 'deleted'
