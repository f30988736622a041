-- Resolves the open dead letters of messages that are sent again as other ones.
UPDATE tickwork_dead_letters AS l
SET resolution = 'replayed', resolved_at = coalesce($1::timestamptz, clock_timestamp()),
    replayed_as = new.message_id
FROM unnest($2::text[], $3::uuid[], $4::uuid[]) AS new (tenant, old_id, message_id)
WHERE l.tenant = new.tenant AND l.message_id = new.old_id AND l.resolution IS NULL
