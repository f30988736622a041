-- When the next schedule of some shards must be planned.
SELECT min((
    SELECT look_at FROM tickwork_schedules
    WHERE bucket / /*buckets_per_shard*/ = asked.value AND look_at IS NOT NULL AND status = 'active'
    ORDER BY look_at LIMIT 1
))
FROM json_each(?1) AS asked
