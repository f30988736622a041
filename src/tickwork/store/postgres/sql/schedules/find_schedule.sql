-- The schedules with a name that are not deleted, of one owner or of all, those without an owner first: at
-- most two.
SELECT /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant = $1 AND s.name = $2 AND s.name IS NOT NULL AND s.status <> 'deleted'
    AND ($3::text IS NULL OR s.owner = $3)
ORDER BY s.tenant, s.name, coalesce(s.owner, '')
LIMIT 2
