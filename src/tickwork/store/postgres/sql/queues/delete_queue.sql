-- Deletes a queue that has no messages and no open dead letters.
DELETE FROM tickwork_queues
WHERE id = $1
    AND NOT EXISTS (SELECT FROM tickwork_messages WHERE queue_id = $1 AND state = 'ready')
    AND NOT EXISTS (SELECT FROM tickwork_messages WHERE queue_id = $1 AND state = 'claimed')
    AND NOT EXISTS (
        SELECT FROM tickwork_messages WHERE queue_id = $1 AND state = 'held' AND key IS NOT NULL
    )
    AND NOT EXISTS (
        SELECT FROM tickwork_dead_letters WHERE queue_id = $1 AND resolution IS NULL
    )
