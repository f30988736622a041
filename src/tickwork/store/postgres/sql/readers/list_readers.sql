-- The roles that may read one tenant.
SELECT r.rolname AS role, obj_description(p.oid, 'pg_policy') AS tenant
FROM pg_policy AS p
CROSS JOIN LATERAL unnest(p.polroles) AS named (id)
JOIN pg_roles AS r ON r.oid = named.id
WHERE p.polrelid = 'tickwork_tenants'::regclass AND starts_with(p.polname, 'tickwork_reader_')
ORDER BY r.rolname
