-- Makes a schedule stand as was decided. Its rule says by itself from when it counts.
UPDATE tickwork_schedules
SET version = version + 1, updated_at = ?2,
    changed_at = CASE WHEN status = ?3 THEN changed_at ELSE ?2 END,
    status = ?3, name = ?4, next_slot = ?5, due_at = ?6, look_at = ?7, last_slot = ?8, fired = ?9,
    runs = ?10, error_count = ?11, last_error = ?12, queue_id = ?13, grace_seconds = ?14,
    expires_after_seconds = ?15, priority = ?16, overlap = ?17, on_dead = ?18, rule = ?19,
    calendar = ?20, terms = ?21, retry = ?22, queue = ?23, type = ?24, content_type = ?25,
    metadata = ?26, body = ?27, shift = 0
WHERE place = ?1
