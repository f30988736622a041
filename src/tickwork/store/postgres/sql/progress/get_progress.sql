-- Returns the rows of a work key.
SELECT name, value FROM tickwork_progress WHERE tenant = $1 AND work = $2
