-- How many messages of a tenant are claimed, in all queues. Reads the index of counted claims.
SELECT count(*) FROM tickwork_messages INDEXED BY tickwork_messages_counted
WHERE tenant = ?1 AND state = 'claimed' AND is_counted = 1
