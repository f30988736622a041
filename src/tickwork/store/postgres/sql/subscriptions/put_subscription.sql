-- Subscribes a queue, once. Returns whether it was not subscribed before.
INSERT INTO tickwork_subscriptions (tenant, types, queue_id) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING
RETURNING TRUE
