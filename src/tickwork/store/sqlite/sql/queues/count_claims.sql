-- Counts the present claims of a queue that has a cap now.
UPDATE tickwork_messages INDEXED BY tickwork_messages_holder SET is_counted = 1
WHERE queue_id = ?1 AND state = 'claimed' AND is_counted = 0
