-- Deletes operations that finished long ago.
DELETE FROM tickwork_operations WHERE id IN (
    SELECT id FROM tickwork_operations WHERE finished_at <= $1 ORDER BY finished_at LIMIT $2
)
