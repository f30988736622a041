-- The slots of a schedule that are messages and not due yet.
SELECT s.tenant, s.id, s.name, s.rule, m.slot, m.due_at
FROM tickwork_schedules AS s
JOIN tickwork_messages AS m ON m.tenant = s.tenant AND m.schedule_id = s.id AND m.schedule_id IS NOT NULL
WHERE s.tenant = ?3 AND s.id = ?4 AND m.run = 0 AND m.slot > ?2 AND m.due_at > ?1
