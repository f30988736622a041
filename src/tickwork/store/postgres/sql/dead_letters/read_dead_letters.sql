-- Letters by tenant and id, oldest first.
SELECT /*dead_letter*/
FROM unnest($1::text[], $2::uuid[]) AS picked (tenant, id)
CROSS JOIN LATERAL (
    -- One probe of the key per letter, whatever the planner believes about the table.
    SELECT * FROM tickwork_dead_letters WHERE tenant = picked.tenant AND id = picked.id LIMIT 1
) AS l
ORDER BY l.failed_at, l.id
