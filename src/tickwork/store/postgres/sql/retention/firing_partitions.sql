-- The daily partitions of firings, oldest first: their names, estimated rows and sizes.
SELECT c.relname AS name, c.reltuples::bigint AS rows, pg_relation_size(c.oid) AS bytes
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'tickwork_firings'::regclass AND c.relname ~ '^tickwork_firings_[0-9]{8}$'
ORDER BY c.relname
