-- Whether a copy into this database was started and is not complete.
SELECT to_regclass('tickwork_copy') IS NOT NULL
