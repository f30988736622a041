-- The system events and changes of a tenant after an id.
SELECT * FROM (
    SELECT id, tenant, owner, at, type, data FROM tickwork_stream_events
    WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3
)
UNION ALL
SELECT * FROM (
    SELECT id, tenant,
        iif(action LIKE 'schedule.%', coalesce(after ->> '$.owner', before ->> '$.owner'), NULL),
        at, action, json_object('subject', subject, 'actor', actor)
    FROM tickwork_audit
    WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3
)
ORDER BY id LIMIT ?3
