-- The shards whose first schedule should have been looked at before an instant, with when that was.
-- (The plus: a column with a type of its own would not be looked up in an index of an expression.)
WITH next AS MATERIALIZED (
    SELECT shard, (
        SELECT look_at FROM tickwork_schedules
        WHERE bucket / /*buckets_per_shard*/ = +shard AND look_at IS NOT NULL AND status = 'active'
        ORDER BY look_at LIMIT 1
    ) AS look_at
    FROM tickwork_shards
)
SELECT shard, look_at FROM next WHERE look_at < ?1
