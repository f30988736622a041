-- Messages of one tenant and priority that waited longer than the queue's retention.
SELECT m.place FROM tickwork_messages AS m
WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ?2 AND m.priority = ?3
    AND m.visible_at <= ?4 - (SELECT retention_seconds FROM tickwork_queues WHERE id = ?1) * 1000000
ORDER BY m.visible_at, m.id
LIMIT ?5
