-- Undelivered deliveries of an endpoint that were published in a span, oldest first, after a given one.
-- (IS NOT DISTINCT FROM keeps the planner from reading all deliveries of the tenant.)
SELECT d.id FROM tickwork_deliveries AS d
WHERE d.endpoint_id = $2 AND d.tenant IS NOT DISTINCT FROM $1 AND d.delivered_at IS NULL
    AND (d.published_at, d.id) > (coalesce($3::timestamptz, '-infinity'), $4::uuid)
    AND d.published_at < $5::timestamptz
ORDER BY d.published_at, d.id
LIMIT $6
