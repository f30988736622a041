-- Drops the index for another number of shards.
DROP INDEX IF EXISTS /*look_index*/
