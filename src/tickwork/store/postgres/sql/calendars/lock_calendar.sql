-- Locks a calendar for its deletion; returns whether a schedule uses it.
SELECT EXISTS (
    SELECT FROM tickwork_schedules
    WHERE tenant = $1 AND calendar = $2 AND calendar IS NOT NULL AND status <> 'deleted'
) AS is_used
FROM tickwork_calendars WHERE tenant = $1 AND name = $2
FOR UPDATE
