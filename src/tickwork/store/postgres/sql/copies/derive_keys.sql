-- Stores the keys of the messages that were copied.
INSERT INTO tickwork_keys (tenant, queue_id, key, last_place)
SELECT tenant, queue_id, key, greatest(max(place), 1) FROM tickwork_messages
WHERE key IS NOT NULL
GROUP BY tenant, queue_id, key
