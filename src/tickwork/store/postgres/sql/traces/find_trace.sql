-- Everything of one correlation in a tenant, oldest first, up to a limit: $3 is the id of the message that began it.
SELECT * FROM (
    (SELECT 'message' AS kind, m.id, m.id AS message_id, q.name, m.state, m.type, m.sent_at AS at,
        m.causation_id, m.event_id, m.attempts::integer, m.schedule_id, m.slot, m.last_error AS error
    FROM tickwork_messages AS m JOIN tickwork_queues AS q ON q.id = m.queue_id
    WHERE m.tenant = $1 AND m.correlation_id = $2 ORDER BY m.id LIMIT $4)
    UNION ALL
    (SELECT 'message', m.id, m.id, q.name, m.state, m.type, m.sent_at,
        m.causation_id, m.event_id, m.attempts::integer, m.schedule_id, m.slot, m.last_error
    FROM tickwork_messages AS m JOIN tickwork_queues AS q ON q.id = m.queue_id
    WHERE m.tenant = $1 AND m.id = $3 AND m.correlation_id IS NULL)
    UNION ALL
    (SELECT 'dead_letter', d.id, d.message_id, q.name, coalesce(d.resolution, 'dead'), d.type, d.sent_at,
        d.causation_id, d.event_id, d.attempts::integer, d.schedule_id, d.slot, d.error
    FROM tickwork_dead_letters AS d JOIN tickwork_queues AS q ON q.id = d.queue_id
    WHERE d.tenant = $1 AND d.correlation_id = $2 ORDER BY d.id LIMIT $4)
    UNION ALL
    (SELECT 'dead_letter', d.id, d.message_id, q.name, coalesce(d.resolution, 'dead'), d.type, d.sent_at,
        d.causation_id, d.event_id, d.attempts::integer, d.schedule_id, d.slot, d.error
    FROM tickwork_dead_letters AS d JOIN tickwork_queues AS q ON q.id = d.queue_id
    WHERE d.tenant = $1 AND d.message_id = $3 AND d.correlation_id IS NULL ORDER BY d.id LIMIT $4)
    UNION ALL
    (SELECT 'run', r.uid, r.message_id, r.id, r.status, r.workflow, r.created_at,
        NULL, NULL, 0, NULL, NULL, r.error
    FROM tickwork_runs AS r
    WHERE r.tenant = $1 AND r.correlation_id = $2 ORDER BY r.created_at, r.uid LIMIT $4)
    UNION ALL
    (SELECT 'run', r.uid, r.message_id, r.id, r.status, r.workflow, r.created_at,
        NULL, NULL, 0, NULL, NULL, r.error
    FROM tickwork_runs AS r
    WHERE r.tenant = $1 AND r.message_id = $3 AND r.correlation_id IS NULL)
    UNION ALL
    (SELECT 'delivery', d.id, d.message_id, coalesce(e.name, ''),
        CASE WHEN d.delivered_at IS NULL THEN 'undelivered' ELSE 'delivered' END, p.type, p.published_at,
        p.causation_id, d.event_id, d.attempts, NULL, NULL, d.last_error
    FROM tickwork_published AS p JOIN tickwork_deliveries AS d ON d.published_id = p.id
    LEFT JOIN tickwork_endpoints AS e ON e.id = d.endpoint_id
    WHERE p.tenant = $1 AND p.correlation_id = $2 ORDER BY p.id LIMIT $4)
) AS found
ORDER BY at, id LIMIT $4
