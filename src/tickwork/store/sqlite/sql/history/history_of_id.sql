-- The record of a message by its id, which is in a chunk with this mark; the newest if there are several. It is one
-- that may be dropped between two times.
SELECT c.tenant, c.queue, c.node, c.ended_at, /*ended*/
FROM (/*marked_chunks ?2*/) AS found
CROSS JOIN tickwork_message_history AS c ON c.place = found.place
CROSS JOIN json_each(c.records) AS r
WHERE c.tenant = ?1 AND c.drop_at >= ?4 AND c.drop_at <= ?5 AND json_extract(r.value, '$[0]') = hex(?3)
ORDER BY c.ended_at DESC
LIMIT 1
