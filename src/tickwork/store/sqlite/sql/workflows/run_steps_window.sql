-- Returns some steps of a run in the order in which they were started, up to a number of bytes if one is given; the first
-- one always fits. Outputs are read of those alone.
SELECT /*run_step*/
FROM (
    SELECT key FROM (
        SELECT key, row_number() OVER started AS number, sum(bytes) OVER started AS bytes
        FROM (
            SELECT key, position, ?5 + length(key) + coalesce(length(output), 0)
                + coalesce(length(error), 0) AS bytes
            FROM tickwork_run_steps WHERE uid = ?1 ORDER BY position, key LIMIT ?3 OFFSET ?2
        ) AS asked
        WINDOW started AS (ORDER BY position, key)
    ) AS measured
    WHERE ?4 IS NULL OR bytes <= ?4 OR number = 1
) AS shown
CROSS JOIN tickwork_run_steps AS s ON s.uid = ?1 AND s.key = shown.key
ORDER BY s.position, s.key
