-- One message that no worker has claimed, with its key: of one tenant, or of any tenant for the system.
SELECT m.tenant, m.queue_id, m.id, m.key
FROM (
    SELECT id FROM tickwork_tenants WHERE $3::text IS NULL
    UNION ALL
    SELECT $3 WHERE $3 IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT tenant, queue_id, id, key, state FROM tickwork_messages
    WHERE tenant = owner.id AND id = $2
    LIMIT 1
) AS m
WHERE m.queue_id = $1 AND m.state <> 'claimed'
LIMIT 1