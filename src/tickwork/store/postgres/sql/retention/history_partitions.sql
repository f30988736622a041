-- The partitions of the history, oldest first: their names and sizes.
SELECT c.relname AS name, pg_relation_size(c.oid) AS bytes
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'tickwork_message_history'::regclass AND c.relname ~ '^tickwork_message_history_[0-9]{10}$'
ORDER BY c.relname
