-- The queues that push to an endpoint of their tenant; whether it exists, whether it is disabled, and until when
-- its breaker is open.
SELECT q.id, q.tenant, q.name, q.settings, q.paused, e.id IS NOT NULL AS has_endpoint,
    e.disabled_at IS NOT NULL AS is_disabled, CASE WHEN e.open_until > ?1 THEN e.open_until END AS open_until
FROM tickwork_queues AS q
LEFT JOIN tickwork_endpoints AS e ON e.tenant = q.tenant AND e.name = q.settings ->> '$.push_to'
WHERE q.settings ->> '$.push_to' IS NOT NULL
ORDER BY q.id
LIMIT ?2
