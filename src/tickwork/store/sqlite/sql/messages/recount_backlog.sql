-- Counts the bytes of all messages in a queue, or stops counting them (`?2` is 0).
UPDATE tickwork_queues SET backlog_bytes = CASE WHEN ?2 THEN (
    SELECT coalesce(sum(bytes), 0) FROM (
        SELECT length(body) AS bytes FROM tickwork_messages WHERE queue_id = ?1 AND state = 'ready'
        UNION ALL
        SELECT length(body) FROM tickwork_messages INDEXED BY tickwork_messages_holder
        WHERE queue_id = ?1 AND state = 'claimed'
        UNION ALL
        SELECT length(body) FROM tickwork_messages WHERE queue_id = ?1 AND state = 'held'
    )
) END
WHERE id = ?1
