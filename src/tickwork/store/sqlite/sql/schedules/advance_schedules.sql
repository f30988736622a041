-- Advances schedules that stay active. Their plans were checked in this transaction.
UPDATE tickwork_schedules AS s
SET next_slot = plan.then_slot, due_at = plan.then_due_at, look_at = plan.look_at,
    fired = s.fired + plan.fires, last_slot = max(
        coalesce(plan.last_slot, s.last_slot), coalesce(s.last_slot, plan.last_slot)
    )
FROM (
    SELECT column1 AS place, column2 AS then_slot, column3 AS then_due_at, column4 AS look_at,
        column5 AS fires, column6 AS last_slot
    FROM (VALUES /*each*/ (?, ?, ?, ?, ?, ?) /*each*/)
) AS plan
WHERE s.place = plan.place
