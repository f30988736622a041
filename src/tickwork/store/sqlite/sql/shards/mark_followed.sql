-- Marks a jump ahead as followed for shards that were taken after it, before it was known: their leaders
-- already use the new time.
UPDATE tickwork_shards SET clock = clock + ?1 WHERE node IS NOT NULL AND taken_at >= ?2
