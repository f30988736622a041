-- Deletes all shards, to replace them by others.
DELETE FROM tickwork_shards
