-- Schedules by id, each of one tenant, or of any tenant for the system, with the number of its place in the question.
SELECT asked.number, /*schedule*/
FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS asked (tenant, id, number)
CROSS JOIN LATERAL (
    SELECT t.id FROM tickwork_tenants AS t WHERE asked.tenant IS NULL
    UNION ALL
    SELECT asked.tenant WHERE asked.tenant IS NOT NULL
) AS owner
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_schedules WHERE tenant = owner.id AND id = asked.id LIMIT 1
) AS s
