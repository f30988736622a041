-- How many messages share a limit now: those claimed from its queues, and those that are delivered to its
-- endpoints. A message that does both counts once, and `$3` not at all.
SELECT (
    SELECT count(*) FROM tickwork_queues AS q
    JOIN tickwork_messages AS m ON m.queue_id = q.id AND m.state = 'claimed' AND m.is_counted
    WHERE q.settings ->> 'limit' = $2 AND coalesce(q.tenant, '') = coalesce($1::text, '')
        AND m.id IS DISTINCT FROM $3::uuid
) + (
    SELECT count(*) FROM tickwork_limit_uses AS u
    CROSS JOIN LATERAL (
        -- IS NOT DISTINCT FROM keeps the planner from searching by state, which may match very many rows.
        SELECT m.queue_id FROM tickwork_messages AS m
        WHERE m.tenant = u.tenant AND m.id = u.message_id
            AND (m.claim, m.state) IS NOT DISTINCT FROM (u.claim, 'claimed')
        LIMIT 1
    ) AS found
    JOIN tickwork_queues AS q ON q.id = found.queue_id
    WHERE u.tenant = $1 AND u.name = $2 AND u.message_id IS DISTINCT FROM $3::uuid
        AND (q.tenant, q.settings ->> 'limit') IS DISTINCT FROM ($1, $2)
) AS messages
