-- The columns of all tables in the schema of this database but partitions, with their types.
SELECT c.relname AS name, a.attname AS field, format_type(a.atttypid, a.atttypmod) AS kind
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'tickwork_meta'::regclass)
    AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND starts_with(c.relname, 'tickwork_')
    AND c.relname <> 'tickwork_copy'
ORDER BY c.relname, a.attnum
