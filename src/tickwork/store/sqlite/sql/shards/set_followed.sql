-- Records up to which sum of jumps of the clock the intervals of a shard were moved.
UPDATE tickwork_shards SET clock = ?2 WHERE shard = ?1
