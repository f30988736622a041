-- Messages of some tenants and priorities that waited longer than the queue's retention, with their keys.
SELECT old.tenant, q.id AS queue_id, old.id, old.key
FROM tickwork_queues AS q, unnest($3::text[], $4::smallint[]) AS lane (tenant, priority)
CROSS JOIN LATERAL (
    SELECT tenant, id, key FROM tickwork_messages
    WHERE queue_id = $2 AND state = 'ready' AND tenant = lane.tenant AND priority = lane.priority
        AND visible_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
            - make_interval(secs => q.retention_seconds)
    ORDER BY visible_at, id
    LIMIT $5
) AS old
WHERE q.id = $2
LIMIT $5
