-- New messages of slots, with the times at which they expire.
SELECT /*columns*/, m.expires_at
FROM unnest($1::text[], $2::uuid[]) AS given (tenant, id)
CROSS JOIN LATERAL (
    -- One index lookup per row, whatever the planner's statistics.
    SELECT * FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id LIMIT 1
) AS m
