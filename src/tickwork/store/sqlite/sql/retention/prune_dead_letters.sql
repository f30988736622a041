-- Deletes dead letters past their retention, the oldest first.
DELETE FROM tickwork_dead_letters WHERE place IN (
    SELECT place FROM tickwork_dead_letters WHERE failed_at <= ?1 ORDER BY failed_at LIMIT ?2
)
RETURNING queue_id, tenant, type, source
