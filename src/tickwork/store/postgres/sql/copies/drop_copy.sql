-- Drops the record of a copy that is complete.
DROP TABLE tickwork_copy
