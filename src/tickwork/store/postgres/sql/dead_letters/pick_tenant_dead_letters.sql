-- The oldest open dead letters of a tenant in a queue that match a filter, after a given one.
SELECT tenant, id
FROM tickwork_dead_letters
WHERE queue_id = $1 AND tenant = $9
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
