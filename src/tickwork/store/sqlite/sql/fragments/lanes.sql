-- The body of the recursive query `lane`: one ready message of each tenant and priority, of one tenant or
-- all. Skips from one to the next in the index. Starts at the tenant in the placeholder, if there is one.
SELECT (
    SELECT place FROM tickwork_messages
    WHERE queue_id = ?1 AND state = 'ready' AND tenant >= coalesce(?2, /*start*/)
    ORDER BY tenant, priority DESC LIMIT 1
)
UNION ALL
SELECT coalesce(
    (
        SELECT place FROM tickwork_messages
        WHERE queue_id = ?1 AND state = 'ready'
            AND tenant = last.tenant AND priority < last.priority
        ORDER BY priority DESC LIMIT 1
    ),
    (
        SELECT place FROM tickwork_messages
        WHERE queue_id = ?1 AND state = 'ready' AND tenant > last.tenant AND ?2 IS NULL
        ORDER BY tenant, priority DESC LIMIT 1
    )
)
FROM lane JOIN tickwork_messages AS last ON last.place = lane.place
WHERE ?2 IS NULL OR last.tenant = ?2
