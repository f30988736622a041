-- A role, quoted for statements with the tenant and the schema: whether row-level security does not hold it,
-- and whether the current role owns the tables.
SELECT quote_ident(r.rolname) AS role, quote_literal($2::text) AS tenant,
    quote_ident(current_schema()) AS schema, 'tickwork_reader_' || md5(r.rolname) AS policy,
    r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, owned.relowner, 'MEMBER') AS is_unbound,
    pg_has_role(current_user, owned.relowner, 'USAGE') AS is_owner,
    EXISTS (SELECT FROM tickwork_tenants WHERE id = $2) AS has_tenant
FROM pg_roles AS r, pg_class AS owned
WHERE r.rolname = $1 AND owned.oid = 'tickwork_tenants'::regclass
