-- Moves a schedule back to the given slot after slots of it were withdrawn.
UPDATE tickwork_schedules SET next_slot = ?2, due_at = ?3, last_slot = ?4, fired = ?5 WHERE place = ?1
