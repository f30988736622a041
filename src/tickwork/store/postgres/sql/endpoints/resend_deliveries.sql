-- Gives deliveries new messages: they are waiting again. Keeps when they arrived first.
UPDATE tickwork_deliveries AS d
SET message_id = new.message_id, arrived_at = coalesce(d.arrived_at, d.delivered_at), delivered_at = NULL, dead_at = NULL
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS new (id, message_id, tenant)
WHERE d.id = new.id AND d.tenant = new.tenant
