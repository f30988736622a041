-- The slots of these schedules that are messages and not due yet.
SELECT s.tenant, s.id, s.name, s.rule, m.slot, m.due_at
FROM unnest($3::text[], $4::uuid[]) AS given (tenant, id)
JOIN tickwork_schedules AS s ON s.tenant = given.tenant AND s.id = given.id
JOIN tickwork_messages AS m ON m.tenant = given.tenant AND m.schedule_id = given.id AND m.schedule_id IS NOT NULL
WHERE m.run = 0 AND m.slot > $2 AND m.due_at > $1
ORDER BY m.due_at, m.id
