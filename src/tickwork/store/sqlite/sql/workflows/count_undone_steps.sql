-- Returns how many compensations of a run have begun, and how many of them are done.
SELECT count(*), count(*) FILTER (WHERE state = 'done') FROM tickwork_run_steps
WHERE uid = ?1 AND key GLOB 'compensate *'
