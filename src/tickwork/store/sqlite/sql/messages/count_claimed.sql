-- How many messages of a tenant are claimed from a queue with a cap.
SELECT count(*) FROM tickwork_messages
WHERE queue_id = ?1 AND tenant = ?2 AND state = 'claimed' AND is_counted = 1
