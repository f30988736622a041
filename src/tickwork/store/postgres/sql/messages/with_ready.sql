-- Which of these queues have ready messages, visible now or later.
SELECT q.id
FROM tickwork_queues AS q
WHERE q.id = ANY ($1::uuid[])
    AND EXISTS (SELECT FROM tickwork_messages AS m WHERE m.queue_id = q.id AND m.state = 'ready')
