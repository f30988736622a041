-- Reserves positions at the end of keys, and locks the keys: a transaction that frees one of them waits until
-- this one ends.
INSERT INTO tickwork_keys AS known (tenant, queue_id, key, last_place)
SELECT new.tenant, new.queue_id, new.key, new.messages
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::integer[])
    AS new (tenant, queue_id, key, messages)
ORDER BY new.tenant, new.queue_id, new.key
ON CONFLICT (tenant, queue_id, key)
    DO UPDATE SET last_place = known.last_place + excluded.last_place
RETURNING tenant, queue_id, key, last_place
