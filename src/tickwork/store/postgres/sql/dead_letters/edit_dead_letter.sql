-- Replaces the body of an open dead letter.
UPDATE tickwork_dead_letters AS l
SET body = $4, content_type = $5, edited_at = coalesce($1::timestamptz, clock_timestamp())
WHERE tenant = $2 AND id = $3 AND resolution IS NULL
RETURNING /*dead_letter*/
