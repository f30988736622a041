-- Removes the rows of deleted schedules past their retention, the oldest first, except for locked ones.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_schedules
    WHERE status = 'deleted' AND changed_at <= $1
    ORDER BY changed_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
DELETE FROM tickwork_schedules WHERE ctid = ANY (ARRAY (SELECT at FROM old))
