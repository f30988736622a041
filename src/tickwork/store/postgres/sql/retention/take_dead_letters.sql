-- Deletes dead letters past their retention, except for locked ones, and returns them. Ids sort by creation
-- time, so the oldest are deleted first.
WITH first AS MATERIALIZED (
    SELECT ctid AS at, failed_at FROM tickwork_dead_letters
    ORDER BY id
    LIMIT $2
),
old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_dead_letters
    WHERE ctid = ANY (ARRAY (SELECT at FROM first WHERE failed_at <= $1))
    FOR UPDATE SKIP LOCKED
)
DELETE FROM tickwork_dead_letters AS l
WHERE l.ctid = ANY (ARRAY (SELECT at FROM old))
RETURNING /*dead_letter*/
