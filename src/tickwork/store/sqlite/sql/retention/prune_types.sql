-- Deletes types that no app has declared for long.
DELETE FROM tickwork_types WHERE (queue_id, type, app) IN (
    SELECT queue_id, type, app FROM tickwork_types WHERE last_seen_at <= ?1 ORDER BY last_seen_at LIMIT ?2
)
