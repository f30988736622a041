-- How many messages a tenant has in all queues, counted up to a limit.
SELECT count(*) AS messages FROM (SELECT FROM tickwork_messages WHERE tenant = $1 LIMIT $2) AS counted
