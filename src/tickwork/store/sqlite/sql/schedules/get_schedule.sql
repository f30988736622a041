-- One schedule by id, of any tenant.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant IN (SELECT id FROM tickwork_tenants) AND s.id = ?1
