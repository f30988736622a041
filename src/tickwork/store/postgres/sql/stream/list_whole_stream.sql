-- The system events and changes of all tenants after an id.
(
    SELECT id, tenant, owner, at, type, data FROM tickwork_stream_events
    WHERE id > $1 ORDER BY id LIMIT $2
)
UNION ALL
(
    SELECT id, tenant,
        CASE WHEN action LIKE 'schedule.%' THEN coalesce(after::json ->> 'owner', before::json ->> 'owner') END,
        at, action, json_build_object('subject', subject, 'actor', actor)::text
    FROM tickwork_audit
    WHERE id > $1 ORDER BY id LIMIT $2
)
ORDER BY id LIMIT $2
