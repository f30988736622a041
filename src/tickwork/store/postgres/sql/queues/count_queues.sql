-- How many queues a tenant has, counted up to a limit.
SELECT count(*) AS queues FROM (SELECT FROM tickwork_queues WHERE tenant = $1 ORDER BY name LIMIT $2) AS counted
