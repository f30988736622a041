-- Returns some events of a run in order, up to a number of bytes if one is given; the first one always fits if that is
-- wanted. Their data are read of those alone.
SELECT /*run_event*/
FROM (
    SELECT number FROM (
        SELECT number, row_number() OVER sent AS nth, sum(bytes) OVER sent AS bytes
        FROM (
            SELECT number, $4::integer + octet_length(data) + octet_length(type) + coalesce(octet_length(id), 0)
                + coalesce(octet_length(consumed_by), 0) AS bytes
            FROM tickwork_run_events WHERE uid = $1 ORDER BY number OFFSET $2
        ) AS asked
        WINDOW sent AS (ORDER BY number)
    ) AS measured
    WHERE $3::bigint IS NULL OR bytes <= $3 OR (nth = 1 AND $5::boolean)
) AS shown
-- One index lookup per row, whatever the planner's statistics.
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_run_events WHERE uid = $1 AND number = shown.number LIMIT 1
) AS e
ORDER BY e.number
