-- How many schedules of some owners of a tenant may still fire, counted up to a limit.
SELECT asked.owner, counted.schedules
FROM unnest($2::text[]) AS asked (owner)
CROSS JOIN LATERAL (
    SELECT count(*) AS schedules FROM (
        SELECT FROM tickwork_schedules
        WHERE tenant = $1 AND owner = asked.owner AND owner IS NOT NULL
            AND status IN ('active', 'paused', 'parked')
        LIMIT $3
    ) AS few
) AS counted
