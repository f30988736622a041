-- Drops the schema of one test.
DROP SCHEMA /*name*/ CASCADE
