-- Creates the record of a copy: how far each table is.
CREATE TABLE tickwork_copy (
    name text PRIMARY KEY,
    position text,
    copied bigint NOT NULL DEFAULT 0,
    is_done boolean NOT NULL DEFAULT false
)
