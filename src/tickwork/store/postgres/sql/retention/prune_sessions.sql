-- Deletes sessions that have expired, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_sessions
    WHERE expires_at <= $1
    ORDER BY expires_at
    LIMIT $2
)
DELETE FROM tickwork_sessions WHERE ctid = ANY (ARRAY (SELECT at FROM old))
