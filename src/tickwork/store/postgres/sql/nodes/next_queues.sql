-- Queues in turn, after a given one; whether each pushes to an endpoint that is disabled.
SELECT q.id, EXISTS (
    SELECT FROM tickwork_endpoints AS e
    WHERE e.tenant = q.tenant AND e.name = q.settings ->> 'push_to' AND e.disabled_at IS NOT NULL
) AS is_disabled
FROM tickwork_queues AS q
WHERE $1::uuid IS NULL OR q.id > $1
ORDER BY q.id
LIMIT $2
