-- What the database says of itself.
SELECT schema_version, cell, epoch, tzdata FROM tickwork_meta
