-- Gives a delivery a new message: it is waiting again. Keeps when it arrived first.
UPDATE tickwork_deliveries
SET message_id = ?2, arrived_at = coalesce(arrived_at, delivered_at), delivered_at = NULL, dead_at = NULL
WHERE id = ?1 AND tenant = ?3
