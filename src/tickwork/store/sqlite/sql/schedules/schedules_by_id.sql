-- Schedules of a tenant in the order they were made, behind one; without a status all but the deleted.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND id > ?2
    AND (?3 IS NULL OR status = ?3) AND (?3 IS NOT NULL OR status <> 'deleted')
    AND (?4 IS NULL OR calendar = ?4) AND (?5 IS NULL OR name = ?5)
ORDER BY id
LIMIT ?6
