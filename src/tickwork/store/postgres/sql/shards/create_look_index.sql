-- Builds the index that leaders need for another number of shards. Schedules may change meanwhile.
CREATE INDEX CONCURRENTLY /*look_index*/ ON tickwork_schedules ((bucket / /*buckets_per_shard*/), look_at, id)
    WHERE status = 'active' AND look_at IS NOT NULL
