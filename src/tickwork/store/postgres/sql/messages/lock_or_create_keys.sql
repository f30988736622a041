-- Locks keys in a fixed order and creates missing ones. Other transactions can neither send to them nor free
-- them until this one ends.
INSERT INTO tickwork_keys AS known (tenant, queue_id, key, last_place)
SELECT new.tenant, new.queue_id, new.key, 0
FROM unnest($1::text[], $2::uuid[], $3::text[]) AS new (tenant, queue_id, key)
ORDER BY new.tenant, new.queue_id, new.key
ON CONFLICT (tenant, queue_id, key) DO UPDATE SET last_place = known.last_place
