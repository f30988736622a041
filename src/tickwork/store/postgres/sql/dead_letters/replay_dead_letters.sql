-- Resolves open dead letters that are sent again as messages; returns the dead letters.
WITH picked AS MATERIALIZED (
    SELECT found.at, given.message_id
    FROM unnest($2::text[], $3::uuid[], $4::uuid[]) AS given (tenant, id, message_id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_dead_letters
        WHERE tenant = given.tenant AND id = given.id LIMIT 1
    ) AS found
)
UPDATE tickwork_dead_letters AS l
SET resolution = CASE WHEN l.edited_at IS NULL THEN 'replayed' ELSE 'fixed' END,
    resolved_at = coalesce($1::timestamptz, clock_timestamp()), replayed_as = picked.message_id
FROM picked
-- Not `IS NULL`: a planner without statistics would read the index of all open letters for it.
WHERE l.ctid = picked.at AND coalesce(l.resolution, '') = ''
RETURNING /*dead_letter*/
