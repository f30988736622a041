-- How many schedules of some owners of a tenant may still fire, counted up to a limit.
SELECT asked.value, (
    SELECT count(*) FROM (
        SELECT 1 FROM tickwork_schedules
        WHERE tenant = ?1 AND owner = asked.value AND owner IS NOT NULL
            AND status IN ('active', 'paused', 'parked')
        LIMIT ?3
    )
)
FROM json_each(?2) AS asked
