-- The keys of planned slots of schedules that wait.
SELECT DISTINCT m.tenant, m.queue_id, m.key
FROM unnest($1::text[], $2::uuid[]) AS given (tenant, id)
CROSS JOIN LATERAL (
    SELECT tenant, queue_id, key FROM tickwork_messages
    WHERE tenant = given.tenant AND schedule_id = given.id AND schedule_id IS NOT NULL
        AND state <> 'claimed' AND claim = 0
    OFFSET 0  -- Makes the planner search by schedule, not by key.
) AS m
WHERE m.key IS NOT NULL
