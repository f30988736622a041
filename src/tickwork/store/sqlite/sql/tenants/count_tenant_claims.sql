-- Counts the present claims of a tenant that has a quota for claims now.
UPDATE tickwork_messages INDEXED BY tickwork_messages_holder SET is_counted = 1
WHERE tenant = ?1 AND state = 'claimed' AND is_counted = 0
