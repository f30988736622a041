-- Whether a schedule uses a calendar, which is to be deleted. The transaction writes, so that stays true.
SELECT EXISTS (
    SELECT 1 FROM tickwork_schedules
    WHERE tenant = ?1 AND calendar = ?2 AND calendar IS NOT NULL AND status <> 'deleted'
) AS is_used
FROM tickwork_calendars WHERE tenant = ?1 AND name = ?2
