-- Drops the index for another number of shards.
DROP INDEX CONCURRENTLY IF EXISTS /*look_index*/
