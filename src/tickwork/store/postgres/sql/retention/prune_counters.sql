-- Deletes counters past their retention, the oldest first.
WITH old AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_tallies
    WHERE minute <= $1
    ORDER BY minute
    LIMIT $2
)
DELETE FROM tickwork_tallies WHERE ctid = ANY (ARRAY (SELECT at FROM old))
