-- Locks schedules in a fixed order, until the transaction ends.
SELECT s.id
FROM (SELECT * FROM unnest($1::text[], $2::uuid[]) AS given (tenant, id) ORDER BY tenant, id) AS given
CROSS JOIN LATERAL (
    SELECT id FROM tickwork_schedules WHERE tenant = given.tenant AND id = given.id FOR UPDATE
) AS s
