-- How many messages a schedule has, of any run, counted up to a limit.
SELECT count(*) FROM (
    SELECT FROM tickwork_messages
    WHERE tenant = $1 AND schedule_id = $2 AND schedule_id IS NOT NULL
    LIMIT $3
) AS unfinished
