-- The properties of the database: schema version, identity and epoch.
SELECT schema_version, cell, epoch FROM tickwork_meta
