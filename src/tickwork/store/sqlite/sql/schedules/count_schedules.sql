-- How many schedules of a tenant may still fire.
SELECT schedules FROM tickwork_tenants WHERE id = ?1
