-- How many queues a tenant has, counted up to a limit.
SELECT count(*) AS queues FROM (SELECT 1 FROM tickwork_queues WHERE coalesce(tenant, '') = ?1 LIMIT ?2)
