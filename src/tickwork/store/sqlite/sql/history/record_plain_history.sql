-- Stores a chunk of records of messages that are acked: those of a queue among some rowids. ?7 has how long their
-- handlers ran, each with so many digits, or is empty.
INSERT INTO tickwork_message_history (ended_at, drop_at, tenant, queue, node, records)
SELECT
    ?1, ?2, ?3, ?4, (SELECT name FROM tickwork_nodes WHERE id = ?5),
    '[' || group_concat(/*plain_ended*/) || ']'
FROM json_each(?6) AS seen CROSS JOIN tickwork_messages AS m ON m.place = seen.value
WHERE m.queue_id = ?9
RETURNING place
