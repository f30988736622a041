-- What the database says of itself.
SELECT schema_version, cell, epoch FROM tickwork_meta
