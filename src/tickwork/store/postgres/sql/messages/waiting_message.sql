-- One message that nobody holds, with its key; for the system of whichever tenant it is.
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