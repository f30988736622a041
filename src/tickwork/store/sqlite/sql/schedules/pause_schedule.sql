-- Pauses an active schedule and adds a number to its version.
UPDATE tickwork_schedules
SET version = version + ?3, status = 'paused', changed_at = ?2, look_at = NULL
WHERE place = ?1 AND status = 'active'
