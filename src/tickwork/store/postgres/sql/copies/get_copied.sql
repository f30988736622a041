-- How far a table is copied.
SELECT position, copied, is_done FROM tickwork_copy WHERE name = $1
