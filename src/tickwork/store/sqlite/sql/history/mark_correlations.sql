-- Stores the correlation ids of some messages as marks of a chunk.
INSERT INTO tickwork_message_history_marks (drop_at, mark, place)
SELECT ?1, 'c:' || m.correlation_id, ?2
FROM json_each(?3) AS seen CROSS JOIN tickwork_messages AS m ON m.place = seen.value
WHERE m.correlation_id IS NOT NULL
ON CONFLICT DO NOTHING
