-- The messages of some notes of settlements, counted by minute, tenant, queue and type: by how they ended, and by the
-- buckets of their durations; and for how many microseconds they ran together.
WITH noted AS MATERIALIZED (
    SELECT ended_at / 60000000 * 60000000 AS minute, tenant, queue, coalesce(type, '') AS type, done, failed, discarded, waits, runs
    FROM tickwork_ended_counts WHERE place IN (SELECT value FROM json_each(?1))
)
SELECT minute, tenant, queue, type, 'done' AS measure, 0 AS bucket, sum(done) AS messages
FROM noted WHERE done > 0 GROUP BY 1, 2, 3, 4
UNION ALL
SELECT minute, tenant, queue, type, 'failed', 0, sum(failed) FROM noted WHERE failed > 0 GROUP BY 1, 2, 3, 4
UNION ALL
SELECT minute, tenant, queue, type, 'discarded', 0, sum(discarded) FROM noted WHERE discarded > 0 GROUP BY 1, 2, 3, 4
UNION ALL
SELECT minute, tenant, queue, noted.type, 'wait', tickwork_bucket(lasted.value), count(*)
FROM noted CROSS JOIN json_each(noted.waits) AS lasted GROUP BY 1, 2, 3, 4, 6
UNION ALL
SELECT minute, tenant, queue, noted.type, 'run', tickwork_bucket(lasted.value), count(*)
FROM noted CROSS JOIN json_each(noted.runs) AS lasted GROUP BY 1, 2, 3, 4, 6
UNION ALL
SELECT minute, tenant, queue, noted.type, 'run_time', 0, sum(lasted.value)
FROM noted CROSS JOIN json_each(noted.runs) AS lasted GROUP BY 1, 2, 3, 4
