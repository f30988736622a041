-- How many messages share a limit now: those claimed from its queues, and those that are delivered to its
-- endpoints. A message that does both counts once, and `?3` not at all.
SELECT (
    SELECT count(*) FROM tickwork_queues AS q
    CROSS JOIN tickwork_messages AS m ON m.queue_id = q.id AND m.state = 'claimed' AND m.is_counted = 1
    WHERE q.settings ->> '$.limit' = ?2 AND coalesce(q.tenant, '') = coalesce(?1, '') AND m.id IS NOT ?3
) + (
    SELECT count(*) FROM tickwork_limit_uses AS u
    CROSS JOIN tickwork_messages AS m
        ON m.tenant = u.tenant AND m.id = u.message_id AND +m.claim = u.claim AND +m.state = 'claimed'
    CROSS JOIN tickwork_queues AS q ON q.id = m.queue_id
    WHERE u.tenant = ?1 AND u.name = ?2 AND u.message_id IS NOT ?3
        AND (q.tenant IS NOT ?1 OR q.settings ->> '$.limit' IS NOT ?2)
) AS messages
