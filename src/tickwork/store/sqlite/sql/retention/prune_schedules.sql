-- Removes the rows of deleted schedules past their retention, the oldest first.
DELETE FROM tickwork_schedules WHERE place IN (
    SELECT place FROM tickwork_schedules
    WHERE status = 'deleted' AND changed_at <= ?1 ORDER BY changed_at LIMIT ?2
)
