-- Deletes a limit.
DELETE FROM tickwork_limits WHERE coalesce(tenant, '') = coalesce(?1, '') AND name = ?2
