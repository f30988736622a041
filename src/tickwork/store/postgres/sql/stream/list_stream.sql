-- The system events and changes of a tenant after an id.
(
    SELECT id, tenant, owner, at, type, data FROM tickwork_stream_events
    WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3
)
UNION ALL
(
    SELECT id, tenant,
        CASE WHEN action LIKE 'schedule.%' THEN coalesce(after::json ->> 'owner', before::json ->> 'owner') END,
        at, action, json_build_object('subject', subject, 'actor', actor)::text
    FROM tickwork_audit
    WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3
)
ORDER BY id LIMIT $3
