-- For each schedule, its last slot that is due by then or was processed, of those that have a message or a
-- record.
SELECT given.id, greatest(waiting.slot, handled.slot) AS slot
FROM unnest($2::text[], $3::uuid[]) AS given (tenant, id)
LEFT JOIN LATERAL (
    SELECT m.slot FROM tickwork_messages AS m
    WHERE m.tenant = given.tenant AND m.schedule_id = given.id AND m.schedule_id IS NOT NULL
        AND m.run = 0 AND coalesce(m.due_at, m.visible_at) <= $1
    ORDER BY m.slot DESC
    LIMIT 1
) AS waiting ON true
LEFT JOIN LATERAL (
    SELECT f.slot FROM tickwork_firings AS f
    WHERE f.tenant = given.tenant AND f.schedule_id = given.id AND f.run = 0
        AND f.status IN (/*handled*/)
    ORDER BY f.slot DESC
    LIMIT 1
) AS handled ON true
WHERE waiting.slot IS NOT NULL OR handled.slot IS NOT NULL
