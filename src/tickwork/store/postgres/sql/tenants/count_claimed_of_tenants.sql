-- How many messages of some tenants are claimed, in all queues. Reads the index of counted claims.
SELECT tenant, count(*) AS messages FROM tickwork_messages
WHERE state = 'claimed' AND is_counted AND tenant = ANY ($1::text[])
GROUP BY tenant
