-- Subscribes a queue, once.
INSERT INTO tickwork_subscriptions (tenant, types, queue_id) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING
