-- Deletes published events past their retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_published
    WHERE published_at <= $1
    ORDER BY published_at
    LIMIT $2
)
DELETE FROM tickwork_published WHERE ctid = ANY (ARRAY (SELECT at FROM old))
