-- Deletes a calendar.
DELETE FROM tickwork_calendars WHERE tenant = ?1 AND name = ?2
