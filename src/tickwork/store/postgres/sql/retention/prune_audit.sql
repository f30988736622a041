-- Deletes audit records past their retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS place FROM tickwork_audit
    WHERE at <= $1
    ORDER BY at
    LIMIT $2
)
DELETE FROM tickwork_audit WHERE ctid = ANY (ARRAY (SELECT place FROM old))
