-- Dead letters by tenant and id.
SELECT /*dead_letter*/
FROM unnest($1::text[], $2::uuid[]) AS picked (tenant, id)
CROSS JOIN LATERAL (
    -- One index lookup per dead letter, whatever the planner's statistics.
    SELECT * FROM tickwork_dead_letters WHERE tenant = picked.tenant AND id = picked.id LIMIT 1
) AS l
