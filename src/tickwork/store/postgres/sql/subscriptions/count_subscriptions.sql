-- How many subscriptions a tenant has, or the system.
SELECT count(*) AS count FROM (
    SELECT FROM tickwork_subscriptions WHERE tenant = $1
    UNION ALL
    SELECT FROM tickwork_subscriptions WHERE $1::text IS NULL AND tenant IS NULL
) AS counted
