-- Since when everything is paused: no message of any tenant is claimed. NULL: it is not.
ALTER TABLE tickwork_meta ADD COLUMN paused_at INTEGER;
