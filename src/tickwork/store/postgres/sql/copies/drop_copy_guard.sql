-- Drops the function that refuses changes.
DROP FUNCTION tickwork_refuse_change
