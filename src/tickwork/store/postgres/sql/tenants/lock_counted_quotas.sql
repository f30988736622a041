-- How many queues, endpoints, subscriptions and sessions a tenant may have. Locks the tenant, so that they are counted
-- and created by one transaction at a time.
SELECT queues_max, endpoints_max, subscriptions_max, sessions_max FROM tickwork_tenants WHERE id = $1
FOR NO KEY UPDATE
