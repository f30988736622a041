-- Ends a schedule that has no slot left: one that another rule gave it keeps it alive.
UPDATE tickwork_schedules SET version = version + 1, status = ?2, changed_at = ?3
WHERE place = ?1 AND status IN ('active', 'paused') AND next_slot IS NULL
