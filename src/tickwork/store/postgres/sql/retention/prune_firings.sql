-- Deletes firings of the default partition past their retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_firings_default
    WHERE finished_at AT TIME ZONE 'UTC' <= $1::timestamptz AT TIME ZONE 'UTC'
    ORDER BY finished_at AT TIME ZONE 'UTC'
    LIMIT $2
)
DELETE FROM tickwork_firings_default WHERE ctid = ANY (ARRAY (SELECT at FROM old))
