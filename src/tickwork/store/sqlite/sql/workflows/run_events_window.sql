-- Returns some events of a run in order, up to a number of bytes if one is given; the first one always fits if that is
-- wanted. Their data are read of those alone.
SELECT /*run_event*/
FROM (
    SELECT number FROM (
        SELECT number, row_number() OVER sent AS nth, sum(bytes) OVER sent AS bytes
        FROM (
            SELECT number, ?4 + length(data) + length(type) + coalesce(length(id), 0)
                + coalesce(length(consumed_by), 0) AS bytes
            FROM tickwork_run_events WHERE uid = ?1 ORDER BY number LIMIT -1 OFFSET ?2
        ) AS asked
        WINDOW sent AS (ORDER BY number)
    ) AS measured
    WHERE ?3 IS NULL OR bytes <= ?3 OR (nth = 1 AND ?5)
) AS shown
CROSS JOIN tickwork_run_events AS e ON e.uid = ?1 AND e.number = shown.number
ORDER BY e.number
