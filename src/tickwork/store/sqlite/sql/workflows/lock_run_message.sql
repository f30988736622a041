-- The queue of a run's message. The transaction writes, so it is alone.
SELECT queue_id FROM tickwork_messages WHERE tenant = ?1 AND id = ?2
