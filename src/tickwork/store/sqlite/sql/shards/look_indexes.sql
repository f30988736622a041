-- The indexes by which leaders find what to plan, one for each number of shards.
SELECT name FROM sqlite_master
WHERE type = 'index' AND tbl_name = 'tickwork_schedules' AND name GLOB 'tickwork_schedules_look*'
