-- The shards whose first schedule should have been planned before an instant, and when that was due. (The
-- plus removes the column's type affinity, so that the index on the expression is used.)
WITH next AS MATERIALIZED (
    SELECT shard, (
        SELECT look_at FROM tickwork_schedules
        WHERE bucket / /*buckets_per_shard*/ = +shard AND look_at IS NOT NULL AND status = 'active'
        ORDER BY look_at LIMIT 1
    ) AS look_at
    FROM tickwork_shards
)
SELECT shard, look_at FROM next WHERE look_at < ?1
