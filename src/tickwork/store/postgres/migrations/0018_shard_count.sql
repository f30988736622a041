-- The number of shards may change: a power of two up to 256. Each number has its own index on schedules.
ALTER TABLE tickwork_shards DROP CONSTRAINT tickwork_shards_shard_check;
ALTER TABLE tickwork_shards ADD CONSTRAINT tickwork_shards_shard_check CHECK (shard BETWEEN 0 AND 255);
