-- Locks a shard that is led under this token until the transaction ends, so that no other node takes it.
SELECT shard FROM tickwork_shards WHERE shard = $1 AND token = $2 AND node IS NOT NULL FOR SHARE
