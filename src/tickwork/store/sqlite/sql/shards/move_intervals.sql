-- Moves interval schedules by a number of microseconds.
UPDATE tickwork_schedules
SET version = version + 1, shift = shift + ?2, next_slot = next_slot + ?2, due_at = due_at + ?2,
    look_at = look_at + ?2, last_slot = last_slot + ?2
WHERE place IN (SELECT value FROM json_each(?1))
