-- Deletes what tenants used in hours that began before a time.
DELETE FROM tickwork_usage WHERE (tenant, period, measure) IN (
    SELECT tenant, period, measure FROM tickwork_usage WHERE period <= $1 ORDER BY period LIMIT $2
)
