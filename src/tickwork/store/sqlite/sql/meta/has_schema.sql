-- Whether a schema exists.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tickwork_meta')
