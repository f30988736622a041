-- The message of a waiting delivery of an endpoint that its breaker pulls forward, and when that is due: the one that
-- was tried least recently, not the last one (`?4`) again if there is another: a single bad message keeps no breaker
-- open. Of the undelivered ones it looks at the `?6` oldest and the `?6` newest, because many in between may be
-- dead or blocked. (The plus keeps SQLite from reading all deliveries of the tenant.)
SELECT m.id, m.visible_at FROM (
    SELECT * FROM (
        SELECT id, message_id, published_at, last_attempt_at FROM tickwork_deliveries
        WHERE endpoint_id = ?2 AND +tenant = ?1 AND delivered_at IS NULL
        ORDER BY published_at, id
        LIMIT ?6
    )
    UNION
    SELECT * FROM (
        SELECT id, message_id, published_at, last_attempt_at FROM tickwork_deliveries
        WHERE endpoint_id = ?2 AND +tenant = ?1 AND delivered_at IS NULL
        ORDER BY published_at DESC, id DESC
        LIMIT ?6
    )
) AS d
CROSS JOIN tickwork_messages AS m ON m.tenant = ?1 AND m.id = d.message_id
WHERE m.queue_id = (SELECT id FROM tickwork_queues WHERE coalesce(tenant, '') = '' AND name = ?3)
    AND m.state = 'ready' AND m.visible_at > ?5
ORDER BY d.message_id IS ?4, d.last_attempt_at, d.published_at, d.id
LIMIT 1
