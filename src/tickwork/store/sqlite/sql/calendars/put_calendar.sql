-- Creates a calendar or replaces its days; the same days are no change. Versions start at the current time,
-- so that a calendar that was deleted and created again has a new version.
INSERT INTO tickwork_calendars (tenant, name, days, version, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT (tenant, name) DO UPDATE
SET days = excluded.days, version = version + 1, updated_at = excluded.updated_at
WHERE days <> excluded.days
