-- Active schedules without a next slot, after a given one, with whether each has no message left (the last
-- column).
SELECT s.tenant, s.id, s.version, s.terms, NOT EXISTS (
    SELECT FROM tickwork_messages AS m
    WHERE m.tenant = s.tenant AND m.schedule_id = s.id AND m.schedule_id IS NOT NULL AND m.run = 0
) AS is_left
FROM tickwork_schedules AS s
WHERE s.status = 'active' AND s.next_slot IS NULL AND (s.tenant, s.id) > ($1, $2)
ORDER BY s.tenant, s.id
LIMIT $3
