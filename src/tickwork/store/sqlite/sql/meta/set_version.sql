-- Writes the version a migration reached.
INSERT INTO tickwork_meta (only_row, schema_version) VALUES (1, ?1)
ON CONFLICT (only_row) DO UPDATE SET schema_version = excluded.schema_version
