-- A direct call that is blocked, with its key.
SELECT tenant, queue_id, id, key
FROM (
    -- OFFSET keeps the planner from reading all direct calls.
    SELECT tenant, queue_id, id, key, state, caller FROM tickwork_messages WHERE tenant = $1 AND id = $2 OFFSET 0
) AS call
WHERE caller IS NOT NULL AND state = 'held'
