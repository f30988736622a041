-- The shards whose first schedule should have been planned before an instant, and when that was due.
SELECT s.shard, next.look_at
FROM tickwork_shards AS s
CROSS JOIN LATERAL (
    SELECT look_at FROM tickwork_schedules
    WHERE bucket / /*buckets_per_shard*/ = s.shard AND status = 'active' AND look_at IS NOT NULL
    ORDER BY look_at, id
    LIMIT 1
) AS next
WHERE next.look_at < $1
