-- Seconds of the fire window that every schedule has at least, unless it is exact. 0: its own window only.
ALTER TABLE tickwork_meta ADD COLUMN widened_seconds INTEGER NOT NULL DEFAULT 0;
