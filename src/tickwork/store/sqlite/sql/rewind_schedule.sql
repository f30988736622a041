-- Lets a schedule begin again with the first of the slots that were taken back from it.
UPDATE tickwork_schedules SET next_slot = ?2, due_at = ?3, last_slot = ?4, fired = fired - ?5
WHERE place = ?1
