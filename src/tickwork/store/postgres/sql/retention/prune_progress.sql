-- Deletes progress past its retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_progress
    WHERE recorded_at <= $1
    ORDER BY recorded_at
    LIMIT $2
)
DELETE FROM tickwork_progress WHERE ctid = ANY (ARRAY (SELECT at FROM old))
