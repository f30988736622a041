-- How many subscriptions a tenant has, or the system.
SELECT count(*) FROM tickwork_subscriptions WHERE coalesce(tenant, '') = coalesce(?1, '')
