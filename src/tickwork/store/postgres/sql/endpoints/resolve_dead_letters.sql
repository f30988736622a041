-- Resolves the open dead letters of messages that are sent again as other ones.
UPDATE tickwork_dead_letters AS l
SET resolution = 'replayed', resolved_at = coalesce($1::timestamptz, clock_timestamp()),
    replayed_as = (
        SELECT new.message_id FROM unnest($2::text[], $3::uuid[], $4::uuid[]) AS new (tenant, old_id, message_id)
        WHERE new.tenant = l.tenant AND new.old_id = l.message_id
        LIMIT 1
    )
-- Not `IS NULL`: a planner without statistics would read the index of all open letters for it.
WHERE coalesce(l.resolution, '') = '' AND l.ctid = ANY (ARRAY (
    SELECT letter.at FROM unnest($2::text[], $3::uuid[]) AS new (tenant, old_id)
    -- One index lookup per row, whatever the planner's statistics.
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_dead_letters
        WHERE tenant = new.tenant AND message_id = new.old_id
        OFFSET 0
    ) AS letter
))
