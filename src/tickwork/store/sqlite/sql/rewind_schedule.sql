-- A schedule without the slots that were taken back from it: it goes back to the one that is given, or stays
-- where it is.
UPDATE tickwork_schedules
SET next_slot = coalesce(?2, next_slot), due_at = coalesce(?3, due_at), last_slot = ?4, fired = fired - ?5
WHERE place = ?1
