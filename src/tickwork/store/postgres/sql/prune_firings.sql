-- Takes away old firings, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_firings
    WHERE finished_at <= $1
    ORDER BY finished_at
    LIMIT $2
)
DELETE FROM tickwork_firings WHERE ctid = ANY (ARRAY (SELECT at FROM old))
RETURNING 1
