-- Deletes system events of streams past their retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS place FROM tickwork_stream_events
    WHERE at <= $1
    ORDER BY at
    LIMIT $2
)
DELETE FROM tickwork_stream_events WHERE ctid = ANY (ARRAY (SELECT place FROM old))
