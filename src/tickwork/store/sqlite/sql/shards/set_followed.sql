-- The intervals of a shard follow the jumps of the clock up to this sum.
UPDATE tickwork_shards SET clock = ?2 WHERE shard = ?1
