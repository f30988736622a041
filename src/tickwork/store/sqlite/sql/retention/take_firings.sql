-- Deletes firings past their retention, the oldest first, and returns them.
DELETE FROM tickwork_firings WHERE (tenant, id) IN (
    SELECT tenant, id FROM tickwork_firings WHERE finished_at <= ?1 ORDER BY finished_at LIMIT ?2
)
RETURNING /*returned_firing*/
