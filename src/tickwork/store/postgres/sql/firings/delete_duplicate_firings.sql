-- Deletes the records of attempts that turned out to be duplicates.
DELETE FROM tickwork_firings
USING unnest($1::text[], $2::uuid[], $3::timestamptz[]) AS double (tenant, id, finished_at)
WHERE tickwork_firings.tenant = double.tenant AND tickwork_firings.id = double.id
    AND tickwork_firings.finished_at = double.finished_at
