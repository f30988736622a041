-- Of the given dead letters, those that are open, belong to the queue and the tenant (or any tenant), and
-- match a filter.
SELECT tenant, id
FROM tickwork_dead_letters
WHERE id = ANY ($10::uuid[]) AND queue_id = $1 AND ($9::text IS NULL OR tenant = $9)
    AND resolution IS NULL
    AND (failed_at, id) > (
        coalesce($2::timestamptz, '-infinity'),
        coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    )
    AND ($4::text IS NULL OR reason = $4)
    AND ($5::text IS NULL OR fingerprint = $5)
    AND ($6::text IS NULL OR type = $6)
    AND failed_at <= coalesce($8::timestamptz, 'infinity')
ORDER BY failed_at, id
LIMIT $7
