-- The indexes by which leaders find what to plan, one for each number of shards. One whose build was
-- interrupted is not valid.
SELECT named.relname AS name, known.indisvalid AS is_valid
FROM pg_index AS known
JOIN pg_class AS named ON named.oid = known.indexrelid
WHERE known.indrelid = 'tickwork_schedules'::regclass AND starts_with(named.relname, 'tickwork_schedules_look')
