-- Removes a queue that has no message.
DELETE FROM queues
WHERE id = ?1
    AND NOT EXISTS (SELECT 1 FROM messages WHERE queue_id = ?1 AND state = 'ready')
    AND NOT EXISTS (SELECT 1 FROM messages WHERE queue_id = ?1 AND state = 'claimed')
    AND NOT EXISTS (
        SELECT 1 FROM messages WHERE queue_id = ?1 AND state = 'held' AND key IS NOT NULL
    )
