-- Whether a schema exists.
SELECT to_regclass('tickwork_meta') IS NOT NULL
