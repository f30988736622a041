-- Returns those of the runs that exist, each with the time.
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, /*run*/
FROM unnest($2::text[], $3::text[]) AS asked (tenant, id)
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_runs WHERE tenant = asked.tenant AND id = asked.id LIMIT 1
) AS r
