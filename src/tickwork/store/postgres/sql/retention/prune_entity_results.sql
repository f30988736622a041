-- Deletes results of entity calls past their retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_entity_results
    WHERE done_at <= $1
    ORDER BY done_at
    LIMIT $2
)
DELETE FROM tickwork_entity_results WHERE ctid = ANY (ARRAY (SELECT at FROM old))
