-- The schedules that have not changed since their plans were made, each with whether its queue exists.
SELECT s.place, s.tenant, s.id, s.queue_id, s.type, length(s.body), s.overlap, s.terms,
    EXISTS (SELECT 1 FROM tickwork_queues AS q WHERE q.id = s.queue_id)
FROM (
    SELECT column1 AS tenant, column2 AS id, column3 AS version, column4 AS next_slot
    FROM (VALUES /*each*/ (?, ?, ?, ?) /*each*/)
) AS plan
CROSS JOIN tickwork_schedules AS s ON s.tenant = plan.tenant AND s.id = plan.id
WHERE s.version = plan.version AND s.next_slot = plan.next_slot AND +s.status = 'active'
