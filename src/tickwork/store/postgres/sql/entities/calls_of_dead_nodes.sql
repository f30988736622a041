-- Direct calls whose node is dead, with their keys. It looks at each node once, however many calls wait.
WITH RECURSIVE node AS (
    (SELECT caller AS id FROM tickwork_messages WHERE caller IS NOT NULL ORDER BY caller LIMIT 1)
    UNION ALL
    SELECT (SELECT caller FROM tickwork_messages WHERE caller > node.id ORDER BY caller LIMIT 1)
    FROM node WHERE node.id IS NOT NULL
)
SELECT call.tenant, call.queue_id, call.id, call.key
FROM node
CROSS JOIN LATERAL (
    SELECT tenant, queue_id, id, key FROM tickwork_messages WHERE caller = node.id LIMIT $2
) AS call
WHERE NOT EXISTS (
    SELECT FROM tickwork_nodes AS living
    WHERE living.id = node.id AND living.expires_at > coalesce($1::timestamptz, clock_timestamp())
)
LIMIT $2
