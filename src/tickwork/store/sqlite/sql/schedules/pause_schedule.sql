-- Pauses an active schedule, so many versions later.
UPDATE tickwork_schedules
SET version = version + ?3, status = 'paused', changed_at = ?2, look_at = NULL
WHERE place = ?1 AND status = 'active'
