-- Updates a schedule as decided. Resets the clock shift, because the rule contains its own start.
UPDATE tickwork_schedules
SET version = version + 1, updated_at = ?2,
    changed_at = CASE WHEN status = ?3 THEN changed_at ELSE ?2 END,
    status = ?3, name = ?4, next_slot = ?5, due_at = ?6, look_at = ?7, last_slot = ?8, fired = ?9,
    runs = ?10, error_count = ?11, last_error = ?12, queue_id = ?13, /*definition_set ?14*/, shift = 0
WHERE place = ?1
