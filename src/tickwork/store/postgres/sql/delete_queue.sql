-- Removes a queue that has no message.
DELETE FROM queues q
WHERE q.id = $1 AND NOT EXISTS (SELECT FROM messages m WHERE m.queue_id = q.id)
RETURNING q.id
