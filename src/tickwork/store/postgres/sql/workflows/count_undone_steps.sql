-- Returns how many compensations of a run have begun, and how many of them are done.
SELECT count(*) AS begun, count(*) FILTER (WHERE state = 'done') AS done FROM tickwork_run_steps
WHERE uid = $1 AND starts_with(key, 'compensate ')
