-- Whether there is any schema yet.
SELECT to_regclass('meta') IS NOT NULL
