-- When the next schedule of some shards must be planned.
SELECT min(next.look_at)
FROM unnest($1::integer[]) AS led (shard)
CROSS JOIN LATERAL (
    SELECT look_at FROM tickwork_schedules
    WHERE bucket / /*buckets_per_shard*/ = led.shard AND status = 'active' AND look_at IS NOT NULL
    ORDER BY look_at, id
    LIMIT 1
) AS next
