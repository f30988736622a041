-- Replaces the body of an open dead letter.
UPDATE tickwork_dead_letters AS l
SET body = $4, content_type = $5, edited_at = coalesce($1::timestamptz, clock_timestamp())
-- One index lookup, whatever the planner's statistics.
FROM (SELECT ctid AS at FROM tickwork_dead_letters WHERE tenant = $2 AND id = $3 LIMIT 1 FOR UPDATE) AS found
-- Not `IS NULL`: a planner without statistics would read the index of all open letters for it.
WHERE l.ctid = found.at AND coalesce(l.resolution, '') = ''
RETURNING /*dead_letter*/
