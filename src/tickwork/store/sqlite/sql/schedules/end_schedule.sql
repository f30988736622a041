-- Ends a schedule that has no next slot. A schedule that an update gave a next slot continues.
UPDATE tickwork_schedules SET version = version + 1, status = ?2, changed_at = ?3
WHERE place = ?1 AND status IN ('active', 'paused') AND next_slot IS NULL
