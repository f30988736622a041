-- A queue, if it has ready messages, visible now or later.
SELECT q.id FROM tickwork_queues AS q
WHERE q.id = ?1 AND EXISTS (SELECT 1 FROM tickwork_messages AS m WHERE m.queue_id = ?1 AND m.state = 'ready')
