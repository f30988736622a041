-- The slots of messages that are still claimed by exactly these claims, each with its attempt.
SELECT m.tenant, m.schedule_id, m.slot, m.run, m.attempts + 1, coalesce(m.due_at, m.visible_at),
    m.catch_up, m.id, m.claim, m.holder
FROM (
    SELECT column1 AS tenant, column2 AS id, column3 AS claim, column4 AS holder
    FROM (VALUES /*each*/ (?, ?, ?, ?) /*each*/)
) AS held
CROSS JOIN tickwork_messages AS m ON m.tenant = held.tenant AND m.id = held.id
WHERE m.claim = held.claim AND m.holder = held.holder AND m.state = 'claimed'
    AND m.schedule_id IS NOT NULL AND m.slot IS NOT NULL
