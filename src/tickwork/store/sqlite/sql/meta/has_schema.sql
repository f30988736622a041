-- Whether there is any schema yet.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tickwork_meta')
