-- The schedule with a name that is not deleted.
SELECT /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant = $1 AND s.name = $2 AND s.name IS NOT NULL AND s.status <> 'deleted'
