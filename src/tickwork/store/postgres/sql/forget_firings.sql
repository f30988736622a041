-- Takes back what was recorded of attempts that turned out to be doubles.
DELETE FROM tickwork_firings USING unnest($1::text[], $2::uuid[]) AS double (tenant, id)
WHERE tickwork_firings.tenant = double.tenant AND tickwork_firings.id = double.id
