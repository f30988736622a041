-- Deliveries of an endpoint, newest first, before a given one: all, delivered (`$6` true) or undelivered (`$6`
-- false) ones, and of the latter waiting (`$7` true) or dead ones. (IS NOT DISTINCT FROM keeps the planner
-- from reading all deliveries of the tenant.)
SELECT /*delivery*/ FROM tickwork_deliveries AS d
WHERE d.endpoint_id = $2 AND d.tenant IS NOT DISTINCT FROM $1
    AND d.published_at >= coalesce($5::timestamptz, '-infinity')
    AND (d.published_at, d.id) < (coalesce($3::timestamptz, 'infinity'), $4::uuid)
    AND ($6::boolean IS DISTINCT FROM true OR d.delivered_at IS NOT NULL)
    AND ($6::boolean IS DISTINCT FROM false OR d.delivered_at IS NULL)
    AND ($7::boolean IS DISTINCT FROM true OR d.dead_at IS NULL)
    AND ($7::boolean IS DISTINCT FROM false OR d.dead_at IS NOT NULL)
ORDER BY d.published_at DESC, d.id DESC
LIMIT $8
