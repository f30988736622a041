-- Deliveries of a tenant, newest first, before a given one: all, delivered (`$6` true) or undelivered (`$6`
-- false) ones, and of the latter waiting (`$7` true) or dead ones. There is no endpoint (`$2` is NULL).
SELECT /*delivery*/ FROM tickwork_deliveries AS d
WHERE d.tenant = $1 AND $2::uuid IS NULL
    AND d.published_at >= coalesce($5::timestamptz, '-infinity')
    AND (d.published_at, d.id) < (coalesce($3::timestamptz, 'infinity'), $4::uuid)
    AND ($6::boolean IS DISTINCT FROM true OR d.delivered_at IS NOT NULL)
    AND ($6::boolean IS DISTINCT FROM false OR d.delivered_at IS NULL)
    AND ($7::boolean IS DISTINCT FROM true OR d.dead_at IS NULL)
    AND ($7::boolean IS DISTINCT FROM false OR d.dead_at IS NOT NULL)
ORDER BY d.published_at DESC, d.id DESC
LIMIT $8
