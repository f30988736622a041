-- Creates a calendar or replaces its days; the same days are no change. Versions begin at the time, so that
-- one that was deleted and comes again does not look like what it was.
INSERT INTO tickwork_calendars (tenant, name, days, version, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT (tenant, name) DO UPDATE
SET days = excluded.days, version = version + 1, updated_at = excluded.updated_at
WHERE days <> excluded.days
