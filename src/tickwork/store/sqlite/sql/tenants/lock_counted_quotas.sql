-- How many queues, endpoints, subscriptions and sessions a tenant may have. The transaction writes, so it is alone.
SELECT queues_max, endpoints_max, subscriptions_max, sessions_max FROM tickwork_tenants WHERE id = ?1
