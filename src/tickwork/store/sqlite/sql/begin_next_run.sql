-- Sets the next slot of an active schedule that is counted from the end of a run; it is looked at ahead of
-- it (`?3`), but when it is due where the overlap policy needs the present.
UPDATE tickwork_schedules
SET version = version + 1, next_slot = ?2, due_at = ?2,
    look_at = CASE WHEN overlap IN ('skip', 'buffer_one') THEN ?2 ELSE ?3 END
WHERE place = ?1 AND status = 'active' AND next_slot IS NULL
