-- How many messages a tenant has in all queues, counted up to a limit.
SELECT count(*) AS messages FROM (SELECT 1 FROM tickwork_messages WHERE tenant = ?1 LIMIT ?2)
