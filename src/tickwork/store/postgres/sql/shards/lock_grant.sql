-- Holds a shard that is led under this token until the end of the transaction, so that nobody takes it
-- meanwhile.
SELECT shard FROM tickwork_shards WHERE shard = $1 AND token = $2 AND node IS NOT NULL FOR SHARE
