-- Takes the write lock before anything is read: a transaction that has read an old state cannot write any more.
UPDATE tickwork_meta SET schema_version = schema_version WHERE false
