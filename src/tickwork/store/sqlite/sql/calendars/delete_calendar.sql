-- Deletes a calendar that no schedule uses.
DELETE FROM tickwork_calendars
WHERE tenant = ?1 AND name = ?2 AND NOT EXISTS (
    SELECT 1 FROM tickwork_schedules
    WHERE tenant = ?1 AND calendar = ?2 AND calendar IS NOT NULL AND status <> 'deleted'
)
