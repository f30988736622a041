-- Endpoints of a tenant that are failing or disabled, by name.
SELECT id, name, failing_since, disabled_at, disabled_reason
FROM tickwork_endpoints
WHERE tenant = $1 AND (failing_since IS NOT NULL OR disabled_at IS NOT NULL)
ORDER BY name
LIMIT $2
