-- The schedules of a tenant that have a name now, of one owner or of all, those without an owner first: at
-- most two.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND name = ?2 AND name IS NOT NULL AND status <> 'deleted'
    AND (?3 IS NULL OR owner = ?3)
ORDER BY coalesce(owner, '')
LIMIT 2
