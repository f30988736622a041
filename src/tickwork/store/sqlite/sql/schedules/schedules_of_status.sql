-- Schedules of a tenant and a status in the order they were made, behind one.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND status = ?3 AND id > ?2
    AND (?4 IS NULL OR calendar = ?4) AND (?5 IS NULL OR name = ?5)
ORDER BY id
LIMIT ?6
