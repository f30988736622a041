-- How many subscriptions a tenant has, or the system.
SELECT count(*) AS count FROM tickwork_subscriptions WHERE coalesce(tenant, '') = coalesce(?1, '')
