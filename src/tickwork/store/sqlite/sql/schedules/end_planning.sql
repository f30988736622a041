-- Completes or parks a schedule whose plan was checked in this transaction.
UPDATE tickwork_schedules
SET next_slot = ?2, due_at = ?3, look_at = ?4, fired = fired + ?5,
    last_slot = max(coalesce(?6, last_slot), coalesce(last_slot, ?6)),
    status = ?7, last_error = coalesce(?8, last_error), changed_at = ?9
WHERE place = ?1
