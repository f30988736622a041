-- A delivery has a `dead_at` if it was not delivered and its message is gone. Before, each question for dead ones
-- looked for the messages of all that wait.
ALTER TABLE tickwork_deliveries ADD COLUMN dead_at INTEGER;
UPDATE tickwork_deliveries SET dead_at = coalesce(last_attempt_at, published_at)
WHERE delivered_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM tickwork_messages AS m
    WHERE m.tenant = tickwork_deliveries.tenant AND m.id = tickwork_deliveries.message_id
);
CREATE INDEX tickwork_deliveries_endpoint_dead ON tickwork_deliveries (endpoint_id, published_at, id)
    WHERE dead_at IS NOT NULL;
CREATE INDEX tickwork_deliveries_tenant_dead ON tickwork_deliveries (tenant, published_at, id)
    WHERE dead_at IS NOT NULL;

-- A message that is removed names its delivery: by the same id, or if it is that of a slot or a resent one, by this.
CREATE INDEX tickwork_deliveries_message ON tickwork_deliveries (message_id) WHERE message_id <> id;
