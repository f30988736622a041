-- A jump ahead is followed already for shards that were taken after it, before it was known: whoever took
-- them went on in the new time.
UPDATE tickwork_shards SET clock = clock + ?1 WHERE node IS NOT NULL AND taken_at >= ?2
