-- The number of shards may change: a power of two up to 256. Each number has its own index on schedules.
CREATE TABLE tickwork_shards_new (
    shard INTEGER PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    token INTEGER NOT NULL DEFAULT 0,
    node BLOB,
    taken_at INTEGER,
    tzdata TEXT,
    clock INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO tickwork_shards_new SELECT shard, token, node, taken_at, tzdata, clock FROM tickwork_shards;
DROP TABLE tickwork_shards;
ALTER TABLE tickwork_shards_new RENAME TO tickwork_shards;
