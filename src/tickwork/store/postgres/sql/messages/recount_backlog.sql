-- Recounts the backlog of a queue whose stripes are locked.
UPDATE tickwork_backlogs SET bytes = CASE WHEN stripe > 0 THEN 0 ELSE (
    SELECT coalesce(sum(bytes), 0) FROM (
        SELECT octet_length(body) AS bytes FROM tickwork_messages WHERE queue_id = $1 AND state = 'ready'
        UNION ALL
        SELECT octet_length(body) FROM tickwork_messages WHERE queue_id = $1 AND state = 'claimed'
        UNION ALL
        SELECT octet_length(body) FROM tickwork_messages
        WHERE queue_id = $1 AND state = 'held' AND key IS NOT NULL
    ) AS waiting
) END
WHERE queue_id = $1
