-- The calendars of a tenant by name.
SELECT tenant, name, days, version, updated_at FROM tickwork_calendars
WHERE tenant = ?1 ORDER BY name
