-- A schedule without the slots that were taken back from it: it goes on with the given one.
UPDATE tickwork_schedules SET next_slot = ?2, due_at = ?3, last_slot = ?4, fired = ?5 WHERE place = ?1
