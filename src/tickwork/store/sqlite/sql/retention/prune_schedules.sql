-- Deletes schedules that were deleted by their owners long enough ago, the oldest first.
DELETE FROM tickwork_schedules WHERE place IN (
    SELECT place FROM tickwork_schedules
    WHERE status = 'deleted' AND changed_at <= ?1 ORDER BY changed_at LIMIT ?2
)
