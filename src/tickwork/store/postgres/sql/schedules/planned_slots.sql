-- The slots of a tenant's active schedules that are messages and not due yet, soonest first: of one tenant or all, of
-- one owner or all.
SELECT s.tenant, s.id, s.name, s.rule, m.slot, m.due_at
FROM tickwork_messages AS m
JOIN tickwork_schedules AS s ON s.tenant = m.tenant AND s.id = m.schedule_id
WHERE m.schedule_id IS NOT NULL AND m.run = 0 AND m.due_at > $2 AND ($1::text IS NULL OR m.tenant = $1)
    AND s.status = 'active' AND ($3::text IS NULL OR s.owner = $3)
ORDER BY m.due_at, m.id
LIMIT $4
