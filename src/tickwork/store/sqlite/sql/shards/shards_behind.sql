-- The shards with a slot that was due before an instant and is not planned, and since when the first such
-- slot has waited: since it was due, or since a change made it known later than that. (The plus removes the
-- column's type affinity, so that the index on the expression is used.)
WITH late AS MATERIALIZED (
    SELECT shard, (
        SELECT max(due_at, look_at) FROM tickwork_schedules
        WHERE bucket / /*buckets_per_shard*/ = +shard AND look_at IS NOT NULL AND status = 'active'
            AND look_at < ?1 AND due_at < ?1
        ORDER BY look_at, id LIMIT 1
    ) AS since
    FROM tickwork_shards
)
SELECT shard, since FROM late WHERE since IS NOT NULL
