-- The system events and changes of all tenants after an id.
SELECT * FROM (
    SELECT id, tenant, owner, at, type, data FROM tickwork_stream_events
    WHERE id > ?1 ORDER BY id LIMIT ?2
)
UNION ALL
SELECT * FROM (
    SELECT id, tenant,
        iif(action LIKE 'schedule.%', coalesce(after ->> '$.owner', before ->> '$.owner'), NULL),
        at, action, json_object('subject', subject, 'actor', actor)
    FROM tickwork_audit
    WHERE id > ?1 ORDER BY id LIMIT ?2
)
ORDER BY id LIMIT ?2
