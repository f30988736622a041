-- Schedules of a tenant that use a calendar and are not deleted, in the order they were made, behind one.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND calendar = ?4 AND calendar IS NOT NULL AND id > ?2 AND status <> 'deleted'
    AND (?3 IS NULL OR status = ?3) AND (?5 IS NULL OR name = ?5)
ORDER BY id
LIMIT ?6
