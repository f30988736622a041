-- Deletes results of entity calls past their retention, the oldest first.
DELETE FROM tickwork_entity_results WHERE (tenant, entity_id, key) IN (
    SELECT tenant, entity_id, key FROM tickwork_entity_results
    WHERE done_at <= ?1
    ORDER BY done_at
    LIMIT ?2
)
