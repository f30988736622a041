-- One message of a queue.
SELECT /*columns*/ FROM tickwork_messages AS m
WHERE m.queue_id = $1 AND m.id = $2 AND ($3::text IS NULL OR m.tenant = $3)
