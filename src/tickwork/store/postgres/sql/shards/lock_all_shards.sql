-- Locks all shards until the transaction ends: no plan runs, and no shard changes its leader.
LOCK TABLE tickwork_shards IN EXCLUSIVE MODE
