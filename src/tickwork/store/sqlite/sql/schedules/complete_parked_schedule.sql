-- Completes a schedule that is parked because its only slot had died, after a replay of that slot succeeded.
UPDATE tickwork_schedules SET version = version + 1, status = 'completed', changed_at = ?3
WHERE place = ?1 AND status = 'parked' AND next_slot IS NULL AND last_slot = ?2
