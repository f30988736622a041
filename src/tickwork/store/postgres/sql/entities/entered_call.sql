-- Of direct calls, which exist, and whether their node has claimed them.
SELECT id, state = 'claimed' AS is_claimed
FROM (
    -- OFFSET keeps the planner from reading all direct calls.
    SELECT id, state, caller FROM tickwork_messages WHERE tenant = $1 AND id = ANY ($2::uuid[]) OFFSET 0
) AS call
WHERE caller IS NOT NULL
