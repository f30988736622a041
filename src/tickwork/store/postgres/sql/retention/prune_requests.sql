-- Deletes requests past their retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_requests
    WHERE started_at <= $1
    ORDER BY started_at
    LIMIT $2
)
DELETE FROM tickwork_requests WHERE ctid = ANY (ARRAY (SELECT at FROM old))
