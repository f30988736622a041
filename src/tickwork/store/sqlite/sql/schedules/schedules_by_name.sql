-- Schedules of a tenant that have a name, by that, behind one.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND name > ?2 AND name IS NOT NULL AND status <> 'deleted'
    AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR calendar = ?4) AND (?5 IS NULL OR name = ?5)
ORDER BY name
LIMIT ?6
