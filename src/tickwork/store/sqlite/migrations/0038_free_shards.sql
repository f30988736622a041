-- How long a shard has been free: `freed_at`. A node that takes one beyond its share keeps it until `kept_until`. A
-- node's `hold_seconds` shows whether it can hold shards in time.
ALTER TABLE tickwork_shards ADD COLUMN freed_at INTEGER;
ALTER TABLE tickwork_shards ADD COLUMN kept_until INTEGER;
ALTER TABLE tickwork_nodes ADD COLUMN hold_seconds REAL;
