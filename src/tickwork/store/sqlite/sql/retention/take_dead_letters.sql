-- Deletes dead letters past their retention, the oldest first, and returns them.
DELETE FROM tickwork_dead_letters WHERE place IN (
    SELECT place FROM tickwork_dead_letters WHERE failed_at <= ?1 ORDER BY failed_at LIMIT ?2
)
RETURNING /*returned_dead_letter*/
