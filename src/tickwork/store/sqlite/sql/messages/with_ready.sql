-- Whether a queue has ready messages, visible now or later.
SELECT EXISTS (SELECT 1 FROM tickwork_messages WHERE queue_id = ?1 AND state = 'ready')
