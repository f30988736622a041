-- Deletes the messages of alarms that were replaced, unless they are claimed.
DELETE FROM tickwork_messages AS m
USING (
    SELECT found.at
    FROM unnest($1::text[], $2::uuid[]) AS old (tenant, id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = old.tenant AND id = old.id LIMIT 1
    ) AS found
) AS old
-- IS NOT DISTINCT FROM keeps the planner from reading all ready messages.
WHERE m.ctid = old.at AND m.state IS NOT DISTINCT FROM 'ready' AND m.key IS NULL
