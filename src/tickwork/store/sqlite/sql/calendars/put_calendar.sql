-- Creates a calendar or replaces its days; the same days are no change. Versions start at the current time, so that a
-- calendar that was deleted and created again has a new version.
INSERT INTO tickwork_calendars AS known (tenant, name, days, version, updated_at) VALUES (?2, ?3, ?4, ?1, ?1)
ON CONFLICT (tenant, name) DO UPDATE SET
    days = excluded.days,
    version = known.version + (known.days <> excluded.days),
    updated_at = iif(known.days = excluded.days, known.updated_at, excluded.updated_at)
RETURNING tenant, name, days, version, updated_at
