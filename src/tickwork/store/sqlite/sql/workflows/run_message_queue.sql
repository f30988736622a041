-- The queue of a run's message.
SELECT queue_id FROM tickwork_messages WHERE tenant = ?1 AND id = ?2
