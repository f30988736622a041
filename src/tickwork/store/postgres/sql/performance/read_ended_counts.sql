-- The messages of some notes of settlements, counted by minute, tenant, queue and type: by how they ended, and by the
-- buckets of their durations; and for how many microseconds they ran together.
WITH noted AS MATERIALIZED (
    SELECT date_trunc('minute', ended_at, 'UTC') AS minute, tenant, queue, coalesce(type, '') AS type,
        done, failed, discarded, waits, runs
    FROM tickwork_ended_counts WHERE ctid = ANY ($1::text[]::tid[])
)
SELECT minute, tenant, queue, type, measure, 0 AS bucket, sum(messages)::bigint AS messages
FROM noted CROSS JOIN LATERAL (VALUES ('done', done), ('failed', failed), ('discarded', discarded))
    AS counted (measure, messages)
WHERE messages > 0
GROUP BY minute, tenant, queue, type, measure
UNION ALL
SELECT minute, tenant, queue, type, 'run_time', 0, round(sum(seconds::float8) * 1e6)::bigint
FROM noted CROSS JOIN LATERAL unnest(runs) AS ran (seconds)
GROUP BY minute, tenant, queue, type
UNION ALL
SELECT minute, tenant, queue, type, measure, width_bucket(seconds, /*bounds_seconds*/) AS bucket, count(*)
FROM noted CROSS JOIN LATERAL (
    SELECT 'wait' AS measure, unnest(waits)::float8 AS seconds
    UNION ALL
    SELECT 'run', unnest(runs)::float8
) AS lasted
GROUP BY minute, tenant, queue, type, measure, bucket
