-- The shards with a slot that was due before an instant and is not planned, and since when the first such
-- slot has waited: since it was due, or since a change made it known later than that.
SELECT s.shard, late.since
FROM tickwork_shards AS s
CROSS JOIN LATERAL (
    SELECT greatest(due_at, look_at) AS since FROM tickwork_schedules
    WHERE bucket / /*buckets_per_shard*/ = s.shard AND status = 'active' AND look_at IS NOT NULL
        AND look_at < $1 AND due_at < $1
    ORDER BY look_at, id
    LIMIT 1
) AS late
