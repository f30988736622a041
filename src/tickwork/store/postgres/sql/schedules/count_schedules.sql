-- How many schedules of a tenant may still fire, counted up to a limit.
SELECT count(*) FROM (
    SELECT FROM tickwork_schedules
    WHERE tenant = $1 AND status IN ('active', 'paused', 'parked')
    LIMIT $2
) AS counted
