-- Whether there is any schema yet.
SELECT to_regclass('tickwork_meta') IS NOT NULL
