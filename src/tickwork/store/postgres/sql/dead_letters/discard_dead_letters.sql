-- Resolves open dead letters without sending them again.
WITH picked AS MATERIALIZED (
    SELECT found.at
    FROM unnest($2::text[], $3::uuid[]) AS given (tenant, id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_dead_letters
        WHERE tenant = given.tenant AND id = given.id LIMIT 1
    ) AS found
)
UPDATE tickwork_dead_letters AS l
SET resolution = 'discarded', resolved_at = coalesce($1::timestamptz, clock_timestamp())
-- Not `IS NULL`: a planner without statistics would read the index of all open letters for it.
WHERE l.ctid = ANY (ARRAY (SELECT at FROM picked)) AND coalesce(l.resolution, '') = ''
RETURNING l.tenant, l.type, l.source
