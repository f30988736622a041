-- One schedule of a tenant by its id.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s WHERE tenant = ?1 AND id = ?2
