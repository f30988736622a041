-- The body of the recursive query `lane`: the tenants and priorities that have a ready message, of one tenant
-- or all. Skips from one to the next in the index. Starts at the tenant in the placeholder, if there is one.
SELECT first.tenant, first.priority
FROM (
    SELECT tenant, priority FROM tickwork_messages
    WHERE queue_id = /*queue*/ AND state = 'ready' AND tenant >= coalesce($3::text, /*start*/)
    ORDER BY tenant, priority DESC LIMIT 1
) AS first
WHERE $3::text IS NULL OR first.tenant = $3
UNION ALL
SELECT following.tenant, following.priority
FROM lane CROSS JOIN LATERAL (
    (
        SELECT tenant, priority FROM tickwork_messages
        WHERE queue_id = /*queue*/ AND state = 'ready'
            AND tenant = lane.tenant AND priority < lane.priority
        ORDER BY priority DESC LIMIT 1
    )
    UNION ALL
    (
        SELECT tenant, priority FROM tickwork_messages
        WHERE queue_id = /*queue*/ AND state = 'ready'
            AND tenant > lane.tenant AND $3::text IS NULL
        ORDER BY tenant, priority DESC LIMIT 1
    )
    LIMIT 1
) AS following
