-- One calendar.
SELECT tenant, name, days, version, updated_at FROM tickwork_calendars WHERE tenant = $1 AND name = $2
